// Runs in the browser: sends the forms of the reference, and completes its examples.

/** A longer response is cut, so that the page stays usable. */
const MAX_SHOWN = 256 * 1024;
/** The URL of the service, with a slash at its end: the page is beside the operations. */
const SERVICE = new URL('.', location).href;
const bearer = document.querySelector('#bearer');

for (const element of document.querySelectorAll('[hidden]:not(.copy)')) element.hidden = false;
for (const element of document.querySelectorAll('.origin')) element.textContent = SERVICE.slice(0, -1);

// Browsers have a clipboard on https and localhost only.
for (const button of navigator.clipboard ? document.querySelectorAll('.copy') : []) {
  button.hidden = false;
  button.onclick = async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = 'Copied';
  };
  button.onblur = () => {
    button.textContent = 'Copy';
  };
}

for (const form of document.forms) {
  const curl = form.parentElement.querySelector('.code code');
  const result = form.parentElement.querySelector('.result');
  let stop = new AbortController();
  const showCurl = () => {
    curl.textContent = toCurl(requestOf(form));
  };
  showCurl();
  form.oninput = showCurl;
  form.onsubmit = async (event) => {
    event.preventDefault();
    stop.abort();
    stop = new AbortController();
    const request = requestOf(form);
    if ('destroys' in form.dataset && !confirm(question(request))) return;
    await send(request, result, stop.signal).catch((error) => {
      if (error.name !== 'AbortError') show(result, String(error));
    });
  };
  form.onreset = () => {
    stop.abort();
    show(result, '');
    setTimeout(showCurl); // the fields are reset after this event
  };
}

/** The request that a form describes; `path` is relative to the service. */
function requestOf(form) {
  const { method } = form.dataset;
  const query = new URLSearchParams();
  const headers = {};
  let { path } = form.dataset;
  let body;
  for (const { name, value, dataset } of form.elements) {
    if (name === '' || value === '') continue;
    if (dataset.in === 'path') path = path.replace(`{${name}}`, value);
    else if (dataset.in === 'query') query.set(name, value);
    else if (dataset.in === 'header') headers[name] = value;
    else {
      headers['Content-Type'] = name;
      body = value;
    }
  }
  return { method, path: query.size > 0 ? `${path}?${query}` : path, headers, body };
}

const question = ({ method, path, body }) =>
  `${method} ${SERVICE}${path}\n\n${body}\n\nThis cannot be undone. Send it?`;

/** The command that sends a request, for a shell with the token in TOKEN. */
function toCurl({ method, path, headers, body }) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const fields = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  const data = body === undefined ? [] : [`-d ${quoted(compact(body))}`];
  const option = method === (body === undefined ? 'GET' : 'POST') ? '' : `-X ${method} `;
  const lines = [
    `curl ${option}${quoted(SERVICE + path)}`,
    '-H "Authorization: Bearer $TOKEN"',
    ...fields,
    ...data,
  ];
  return lines.join(' \\\n  ');
}

/** JSON without white space between its tokens, whose digits and strings stay as they are; other texts unchanged. */
function compact(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  return text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1');
}

/** Sends a request, and shows the response while it arrives. */
async function send({ method, path, headers, body }, result, signal) {
  const token = bearer.value.trim();
  show(result, '…');
  const response = await fetch(path, {
    method,
    headers: { ...headers, ...(token !== '' && { authorization: `Bearer ${token}` }) },
    body,
    signal,
  });
  const fields = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  const shown = show(result, `${response.status} ${response.statusText}`, fields, '');
  const isText = /text|json/.test(response.headers.get('content-type'));
  for await (const piece of response.body.pipeThrough(new TextDecoderStream('utf-8'), { signal })) {
    shown.append(isText ? piece : `${piece.length} characters that are no text\n`);
    if (shown.textContent.length < MAX_SHOWN) continue;
    shown.append('\n… (cut here)');
    break;
  }
  result.dataset.complete = '';
}

/** Shows the parts of a response; returns the element of the last one. */
function show(result, ...parts) {
  const elements = parts
    .filter((part, i) => part !== '' || i > 0)
    .map((part) => {
      const element = document.createElement('pre');
      element.textContent = part;
      return element;
    });
  delete result.dataset.complete;
  result.replaceChildren(...elements);
  return elements.at(-1);
}

const contents = document.querySelector('nav ul');
const links = new Map(
  [...document.querySelectorAll('nav a')].map((link) => [document.getElementById(link.hash.slice(1)), link]),
);
/** Marks the link of the section in sight: the last one that begins in the upper quarter of the window, or above. */
const mark = () => {
  const headings = [...links.keys()];
  const last = headings.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 4);
  const current = last ?? headings[0];
  for (const [heading, link] of links) link.ariaCurrent = heading === current ? 'location' : null;
  contents.scrollTop = links.get(current).offsetTop - contents.clientHeight / 2;
};
addEventListener('scroll', mark);
mark();
