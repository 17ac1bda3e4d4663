// Runs in the browser: sends the forms of the reference.

/** A longer response is cut, so that the page stays usable. */
const MAX_SHOWN = 256 * 1024;
const bearer = document.querySelector('#bearer');

for (const element of document.querySelectorAll('[hidden]')) element.hidden = false;
for (const form of document.forms) {
  let stop = new AbortController();
  form.onsubmit = async (event) => {
    event.preventDefault();
    stop.abort();
    stop = new AbortController();
    await send(form, stop.signal).catch((error) => {
      if (error.name !== 'AbortError') show(form, String(error));
    });
  };
  form.onreset = () => {
    stop.abort();
    show(form, '');
  };
}

/** Sends what a form describes, and shows the response while it arrives. */
async function send(form, signal) {
  const headers = new Headers();
  const query = new URLSearchParams();
  const { method } = form.dataset;
  let path = form.dataset.path;
  let body;
  if (bearer.value !== '') headers.set('authorization', `Bearer ${bearer.value.trim()}`);
  for (const { name, value, dataset } of form.elements) {
    if (name === '' || value === '') continue;
    if (dataset.in === 'path') path = path.replace(`{${name}}`, value);
    else if (dataset.in === 'query') query.set(name, value);
    else if (dataset.in === 'header') headers.set(name, value);
    else {
      headers.set('content-type', name);
      body = value;
    }
  }
  show(form, '…');
  const url = query.size > 0 ? `${path}?${query}` : path;
  const response = await fetch(url, { method, headers, body, signal });
  const fields = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  const shown = show(form, `${response.status} ${response.statusText}`, fields, '');
  const isText = /text|json/.test(response.headers.get('content-type'));
  for await (const piece of response.body.pipeThrough(new TextDecoderStream('utf-8'), { signal })) {
    shown.append(isText ? piece : `${piece.length} characters that are no text\n`);
    if (shown.textContent.length < MAX_SHOWN) continue;
    shown.append('\n… (cut here)');
    break;
  }
  form.nextElementSibling.dataset.complete = '';
}

/** Shows the parts of a response below its form; returns the element of the last one. */
function show(form, ...parts) {
  const elements = parts
    .filter((part, i) => part !== '' || i > 0)
    .map((part) => {
      const element = document.createElement('pre');
      element.textContent = part;
      return element;
    });
  const result = form.nextElementSibling;
  delete result.dataset.complete;
  result.replaceChildren(...elements);
  return elements.at(-1);
}
