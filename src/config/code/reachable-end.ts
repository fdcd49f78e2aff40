/** Tells whether code can come to its end without a `return`, as far as its statements show. */
import type { AnyNode, Statement } from 'acorn';
import { base, full } from 'acorn-walk';

/** Whether a run can pass the last of the statements. True in doubt. */
export function canEnd(statements: readonly AnyNode[]): boolean {
  return !statements.some((statement) => leaves(statement as Statement));
}

/** Whether every run that reaches the statement leaves the code there. */
function leaves(statement: Statement): boolean {
  switch (statement.type) {
    case 'ReturnStatement':
    case 'ThrowStatement':
      return true;
    case 'BlockStatement':
      return !canEnd(statement.body);
    case 'IfStatement':
      return Boolean(statement.alternate && leaves(statement.alternate)) && leaves(statement.consequent);
    case 'TryStatement': {
      const { block, handler, finalizer } = statement;
      return (finalizer != null && leaves(finalizer)) || (leaves(block) && (!handler || leaves(handler.body)));
    }
    case 'SwitchStatement': {
      const { cases } = statement;
      const last = cases.at(-1);
      return last !== undefined && cases.some(({ test }) => !test) && !canEnd(last.consequent) && !hasBreak(statement);
    }
    case 'WhileStatement':
      return statement.test.type === 'Literal' && Boolean(statement.test.value) && !hasBreak(statement);
    case 'ForStatement':
      return !statement.test && !hasBreak(statement);
    default:
      return false;
  }
}

function hasBreak(statement: AnyNode): boolean {
  let found = false;
  full(
    statement,
    ({ type }) => {
      found ||= type === 'BreakStatement';
    },
    { ...base, Function: () => {} },
  );
  return found;
}
