/** How the page of an OpenAPI document looks: light and dark, on narrow screens too. */
export const PAGE_STYLE: string = `
:root { color-scheme: light dark; --line: #8885; --soft: #8882; --accent: light-dark(#1a5fb4, #99c1f1); }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1rem 0 0.25rem; }
p { margin: 0.25rem 0; }
a { color: var(--accent); }
section { border: 1px solid var(--line); border-radius: 0.5rem; margin: 1rem 0; padding: 0.75rem 1rem; }
code, pre { font: 0.9rem/1.4 ui-monospace, monospace; }
pre { background: var(--soft); border-radius: 0.25rem; margin: 0.25rem 0; max-height: 30rem; overflow: auto; overflow-wrap: anywhere; padding: 0.5rem; white-space: pre-wrap; }
summary { cursor: pointer; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-top: 1px solid var(--line); padding: 0.25rem 0.5rem 0.25rem 0; text-align: left; vertical-align: top; }
.method { border: 1px solid var(--accent); border-radius: 0.25rem; color: var(--accent); padding: 0 0.4rem; }
.summary { font-weight: 600; }
.text { white-space: pre-line; }
`;
