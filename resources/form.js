/**
 * Helpers that the dialogs of all nodes share: values of fields, defaults, and validators that give a reason. Attaches
 * `window.modelet.form`; safe to load more than once. Every node loads it, because any other node may be disabled.
 *
 * Texts come from the node's own catalog: `<type>.label.<property>`, `<type>.error.<error>`, `<type>.tip.<property>`.
 */
(() => {
  'use strict';

  const RUNTIME = 'modelet-runtime';

  function fieldOf(node, property) {
    return $(`#${node._def.category === 'config' ? 'node-config-input' : 'node-input'}-${property}`);
  }

  function held(field) {
    return field.is(':checkbox') ? field.prop('checked') : field.val();
  }

  /**
   * The open form counts, but only for its own node: saving a config node validates other nodes meanwhile. Absent and
   * blank ones, as in flows of older versions, are at their default.
   */
  function current(node, property) {
    const isOpen = RED.editor.getEditStack().some((edited) => edited && edited.id === node.id);
    const field = fieldOf(node, property);
    const value = isOpen && field.length ? held(field) : node[property];
    return value === undefined || value === null || value === '' ? node._def.defaults[property].value : value;
  }

  /** Shows the defaults of absent properties. Only in the fields: the node itself changes when the dialog is saved. */
  function showDefaults(node) {
    for (const [property, { value }] of Object.entries(node._def.defaults)) {
      if (node[property] !== undefined) continue;
      const field = fieldOf(node, property);
      if (field.is(':checkbox')) field.prop('checked', value);
      else field.val(value);
    }
  }

  /** Node-RED leaves the falsy defaults out of a new config node, and flows of older versions lack newer properties. */
  function addDefaults(node) {
    showDefaults(node);
    for (const [property, { value }] of Object.entries(node._def.defaults)) node[property] ??= value;
  }

  /** Explains the chosen value below its field, with the text `tip.<property>.<value>`. */
  function explain(node, property) {
    const field = fieldOf(node, property);
    const hint = field.nextAll('.modelet-hint').first();
    field.on('change', () => {
      const value = field.val();
      hint.html(value ? node._(`${node.type}.tip.${property}.${value}`) : '');
    });
  }

  /** Unfolds `details` if one of these properties is not at its default. */
  function unfoldIfTouched(node, details, properties) {
    const isTouched = properties.some((property) => {
      const field = details.find(`#node-input-${property}`);
      return String(held(field)) !== String(node._def.defaults[property].value);
    });
    details.prop('open', isTouched);
  }

  /** Id of the runtime that new nodes take: the first that there is; blank where there is none yet. */
  function findRuntime(node) {
    let found = '';
    RED.nodes.eachConfig((config) => {
      const isInScope = !config.z || config.z === node.z;
      if (!found && config.type === RUNTIME && isInScope && !config.d) found = config.id;
    });
    return found;
  }

  /** As last deployed. The nodes of a subflow run in its instances only, under other ids. */
  function isRunning(node) {
    const flow = RED.nodes.originalFlow() || [];
    const find = (id) => flow.find((other) => other.id === id);
    const [own, tab] = [find(node.id), find(node.z)];
    return Boolean(own && !own.d && tab && tab.type === 'tab' && !tab.disabled);
  }

  /** Returns a validator's reason against a value. */
  function fail(node, property, error, values) {
    return `${node._(`${node.type}.label.${property}`)}: ${node._(`${node.type}.error.${error}`, values)}`;
  }

  // Validators. Node-RED takes the reason only of functions of two parameters, which are called on the node. An absent
  // property is one of a flow of an older version: it takes its default.

  function numeric(property, error, pattern, min, max) {
    return function (v, _opt) {
      if (v === undefined) return true;
      const text = String(v).trim();
      if (pattern.test(text) && Number(text) >= min && Number(text) <= max) return true;
      return fail(this, property, error, { min, max });
    };
  }

  function wholeNumber(property, min, max) {
    return numeric(property, 'wholeNumber', /^\d+$/, min, max);
  }

  function number(property, min, max) {
    return numeric(property, 'number', /^\d*\.?\d+$/, min, max);
  }

  function oneOf(property, values) {
    return function (v, _opt) {
      return v === undefined || values.includes(v) || fail(this, property, 'unknown', { value: v });
    };
  }

  function present(property) {
    return function (v, _opt) {
      const value = v === undefined ? this._def.defaults[property].value : v;
      return String(value).trim() !== '' || fail(this, property, 'missing');
    };
  }

  function messageProperty(property) {
    return function (v, _opt) {
      if (v === undefined) return true;
      if (String(v).trim() === '') return fail(this, property, 'missing');
      const result = RED.utils.validatePropertyExpression(v, {});
      return result === true || fail(this, property, 'property', { reason: result });
    };
  }

  /** Also one that may be written: not what an HTTP client is answered by. */
  function writableProperty(property) {
    const isValid = messageProperty(property);
    return function (v, opt) {
      const [, , client] = /^(?:msg\.)?(["']?)(req|res)\1(?=$|[.[])/.exec(v ?? '') ?? [];
      return client ? fail(this, property, 'client', { client }) : isValid.call(this, v, opt);
    };
  }

  function json(property) {
    return function (v, _opt) {
      if (v === undefined) return true;
      try {
        JSON.parse(v);
        return true;
      } catch (error) {
        return fail(this, property, 'json', { reason: error.message });
      }
    };
  }

  function blankOr(validator) {
    return function (v, opt) {
      return String(v ?? '').trim() === '' || validator.call(this, v, opt);
    };
  }

  /** The value of a hidden field has no effect. */
  function usedIf(isUsed, validator) {
    return function (v, opt) {
      return !isUsed(this) || validator.call(this, v, opt);
    };
  }

  /**
   * For a property that every value fits: fails if the node cannot be used as it is drawn, by wiring.js. Invalid fields
   * have reasons of their own, and an open dialog must not mark this field for the fault of another.
   */
  function wired(_v, _opt) {
    const fault = window.modelet.wiring?.faultOf(this);
    if (fault === undefined || RED.editor.getEditStack().some((edited) => edited && edited.id === this.id)) return true;
    const others = Object.entries(this._def.defaults).filter(([, { validate }]) => validate && validate !== wired);
    // The tooltip of a node keeps every line whole, however long it is.
    const lines = fault.replace(/(.{40,60}) /g, '$1\n    ');
    return others.some(([property, { validate }]) => validate.call(this, this[property], {}) !== true) || lines;
  }

  /** The rows of an editable list, as they are kept with its items. To the user, a row that fades away is gone. */
  function listRows(list) {
    return (
      list
        .children(':not(.red-ui-editableList-item-deleting)')
        .toArray()
        .map((item) => $(item).children('.red-ui-editableList-item-content').data('row'))
        // A row that was removed fades out, and tells the list of it when the dialog may be closed already.
        .filter((row) => row !== undefined)
    );
  }

  window.modelet = window.modelet || {};
  window.modelet.form = {
    current,
    listRows,
    showDefaults,
    addDefaults,
    explain,
    unfoldIfTouched,
    findRuntime,
    isRunning,
    fail,
    wholeNumber,
    number,
    oneOf,
    present,
    messageProperty,
    writableProperty,
    json,
    blankOr,
    usedIf,
    wired,
  };
})();
