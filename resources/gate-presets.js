/** The first question of a gate's dialog: what the gate is for. A preset fills in other fields and is not saved itself. */

/** Fields of each preset. A total capacity that the user has typed stays. */
const PRESETS = {
  protect: { source: 'aimd', baseline: 0, whenClosed: 'wait' },
  behind: { source: 'saturation', baseline: 0.05, whenClosed: 'wait' },
  limit: { source: 'constant', budget: 1, baseline: 0, whenClosed: 'wait' },
};
const FIRST_LIMIT = 10;

/** The preset whose source the form has; a reserve or refusals beside it do not make it another purpose. */
function presetOf(read) {
  const found = Object.keys(PRESETS).find((name) => PRESETS[name].source === read('source'));
  if (found === 'limit' && Number(read('budget')) !== 1) return 'own';
  return found || 'own';
}

export function offerPresets(node, element, field, read) {
  const select = element.find('#modelet-gate-preset');
  const hint = select.nextAll('.modelet-hint').first();
  const show = () => {
    const preset = presetOf(read);
    if (select.val() !== preset) select.val(preset);
    hint.html(node._(`modelet-gate.tip.preset.${preset}`));
  };
  select.on('change', (event) => {
    event.stopPropagation();
    const preset = select.val();
    for (const [property, value] of Object.entries(PRESETS[preset] || {})) {
      field(property).val(String(value)).trigger('change');
    }
    if (preset === 'limit' && String(read('maxSys')).trim() === '') field('maxSys').val(FIRST_LIMIT).trigger('change');
    show();
  });
  element.on('change', show);
  show();
}
