// Runs in the browser, after Swagger UI's bundle.

/** The controls to which Swagger UI gives no accessible name, or a different one than they show. */
const NAMES = {
  '.body-param__text': 'Request body',
  '.parameters select': 'Value',
  '.close-modal': 'Close',
  '.modal-btn.authorize': 'Authorize',
  '.json-schema-2020-12-accordion:has(> :first-child:empty)': 'Schema',
};
new MutationObserver(() => {
  for (const [selector, name] of Object.entries(NAMES))
    for (const element of document.querySelectorAll(selector)) element.ariaLabel = name;
}).observe(document.body, { childList: true, subtree: true });

const dark = matchMedia('(prefers-color-scheme: dark)');
dark.onchange = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.onchange();

globalThis.SwaggerUIBundle({
  dom_id: '#swagger-ui',
  url: 'openapi.json',
  layout: 'BaseLayout',
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  syntaxHighlight: { theme: 'monokai' },
  components: {
    DeepLink: ({ text }) => text, // a link within a button
    ServersContainer: () => null, // there is one server: this one
  },
});
