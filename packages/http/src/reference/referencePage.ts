import { Marked } from 'marked';

/** What the page shows of an OpenAPI document. */
export type ApiDocument = {
  info: { title: string; description: string; version: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema>; securitySchemes: { bearer: { description: string } } };
};
type Operation = {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, Media> };
  security?: { bearer?: string[] }[];
  'x-destructive'?: boolean;
  responses: Record<string, Response>;
};
type Parameter = Described & {
  name: string;
  in: string;
  required?: boolean;
  example?: unknown;
  schema: Schema;
};
type Response = Described & { headers?: Record<string, Described>; content?: Record<string, Media> };
type Media = {
  schema: Schema;
  example?: unknown;
  /** Of an error response, one for each code. */
  examples?: Record<string, { value: { error: number } }>;
};
type Described = { description?: string };
type Schema = Described & {
  $ref?: string;
  type?: string;
  format?: string;
  enum?: unknown[];
  'x-enum-descriptions'?: string[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  examples?: unknown[];
};

const toText = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
const join = <T>(items: Iterable<T>, toHtml: (item: T) => string): string => [...items].map(toHtml).join('');
const slug = (text: string): string => text.toLowerCase().replace(/[^a-z0-9]+/g, '-');

const pre = (text: string): string => `<pre><code>${coloured(text.trim())}</code></pre>`;
/** The script shows the button, and replaces the address of an example with that of the service. */
const copyable = (text: string): string =>
  `<div class="code">${pre(text).replace(/http:\/\/127\.0\.0\.1:\d+/g, '<span class="origin">$&</span>')}<button type="button" class="copy" hidden>Copy</button></div>`;
/** Strings of JSON in HTML, with the colon after a key; and numbers and words. */
const TOKEN = /(&#34;.*?&#34;)(:?)|(?<=[ [:,])[-\w.]+/g;
const coloured = (text: string): string =>
  /^[[{]/.test(text)
    ? toText(text).replace(TOKEN, (token, string, colon) => {
        const name = colon ? 'key' : string ? 'string' : 'number';
        return `<span class="${name}">${token}</span>`;
      })
    : toText(text);
const example = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value, undefined, 2);

const markdown = new Marked({
  renderer: {
    heading({ tokens, depth, text }) {
      return `<h${depth} id="${slug(text)}">${this.parser.parseInline(tokens)}</h${depth}>`;
    },
    code: ({ text, lang }) => (lang ? copyable(text) : pre(text)),
  },
});
const toHtml = (text = ''): string => markdown.parse(text, { async: false });

/** The guide and the reference, as HTML that needs no script to be read. `links`: a style sheet, a script and an icon. */
export function referencePage(api: ApiDocument, guide: string, [style, script, icon]: string[]): string {
  const { title, description, version } = api.info;
  const operations = Object.entries(api.paths).flatMap(([path, byMethod]) =>
    Object.entries(byMethod).map(([method, operation]) => ({ path, method, ...operation })),
  );
  const tags = api.tags.map((tag) => ({
    ...tag,
    operations: operations.filter((o) => o.tags[0] === tag.name),
  }));
  const chapters = markdown.lexer(guide).filter((token) => token.type === 'heading' && token.depth === 2);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${toText(title)}</title>
<link rel="icon" href="${icon}" type="image/svg+xml">
<link rel="stylesheet" href="${style}">
<script defer src="${script}"></script>
</head>
<body>
<header><h1>${toText(title)} <span>${toText(version)}</span></h1><a href="openapi.json">openapi.json</a></header>
<nav aria-label="Contents"><details><summary>Contents</summary><ul>
<li class="tag">guide</li>${join(chapters, (chapter) => ('text' in chapter ? link(slug(chapter.text), chapter.text) : ''))}
${link('token', 'Token')}
${join(tags, (tag) => `<li class="tag">${toText(tag.name)}</li>${join(tag.operations, (o) => link(anchor(o), o.summary))}`)}
${link('errors', 'Errors')}
${link('schemas', 'Schemas')}
</ul></details></nav>
<main>
${toHtml(description)}
${toHtml(guide)}
<section class="token">
<h2 id="token">Token</h2>
${toHtml(api.components.securitySchemes.bearer.description)}
<p hidden><label><span>Token for <em>Try it</em>, which only this page keeps</span>
<input id="bearer" class="secret" autocomplete="off" spellcheck="false"></label></p>
</section>
${join(tags, (tag) => `<h2 id="${slug(tag.name)}">${toText(tag.name)}</h2>${toHtml(tag.description)}${join(tag.operations, (o) => section(o, api))}`)}
<h2 id="errors">Errors</h2>
${errorTable(operations, api)}
<h2 id="schemas">Schemas</h2>
${join(Object.entries(api.components.schemas), ([name, schema]) => `<section><h3 id="${name}">${name}</h3>${toHtml(schema.description)}${properties(schema)}</section>`)}
</main>
</body>
</html>
`;
}

type Located = Operation & { path: string; method: string };

const link = (id: string, text: string): string => `<li><a href="#${id}">${toText(text)}</a></li>`;
const anchor = ({ tags, operationId }: Operation): string => `/${tags[0]}/${operationId}`;

function section(operation: Located, { components }: ApiDocument): string {
  const { path, method, summary, description, parameters = [], requestBody, security, responses } = operation;
  const { 200: success, ...errors } = responses;
  const scopes = security?.flatMap(({ bearer = [] }) => bearer) ?? [];
  const [[bodyType, body] = []] = Object.entries(requestBody?.content ?? {});
  const bodySchema = body && resolve(body.schema, components.schemas);
  return `<section class="operation">
<h3 id="${anchor(operation)}">${toText(summary)}</h3>
<p class="route"><b class="${method}">${method.toUpperCase()}</b> <code>${toText(path)}</code>${join(scopes, (scope) => ` <span>scope ${toText(scope)}</span>`)}</p>
${toHtml(description)}
${list('Parameters', parameters, (p) => `<code>${toText(p.name)}</code> <span>${p.in}${p.required ? ', required' : ''}</span>`)}
${bodySchema ? `<h4>Body: ${bodyType}</h4>${toHtml(bodySchema.description)}${properties(bodySchema)}` : ''}
<h4>Response</h4>
${toHtml(success?.description)}
${join(Object.entries(success?.content ?? {}), ([type, { example: value }]) => `<p class="type">${type}</p>${value === undefined ? '' : pre(example(value))}`)}
<details><summary>Headers of the response</summary>${list('', named(success?.headers), (h) => `<code>${h.name}</code>`)}</details>
<details><summary>Errors</summary>${list('', named(errors), (e) => `<code>${e.name}</code>`)}</details>
${tryIt(operation, bodyType, body?.example ?? bodySchema?.examples?.[0])}
</section>`;
}

/** All codes, and the operations that return them. */
function errorTable(operations: readonly Located[], { components }: ApiDocument): string {
  const { enum: codes = [], 'x-enum-descriptions': causes = [] } =
    components.schemas.Error?.properties?.error ?? {};
  const codesOf = ({ responses }: Operation): number[] =>
    Object.values(responses)
      .flatMap(({ content = {} }) => Object.values(content))
      .flatMap(({ examples = {} }) => Object.values(examples).map(({ value }) => value.error));
  const rows = join(codes.entries(), ([i, code]) => {
    const returning = operations.filter((operation) => codesOf(operation).includes(code as number));
    const isCommon = [0, operations.length].includes(returning.length);
    const links = returning.map((o) => `<a href="#${anchor(o)}">${o.operationId}</a>`).join(', ');
    return `<tr><td>${code}</td><td>${toText(causes[i] ?? '')}</td><td>${isCommon ? 'all' : links}</td></tr>`;
  });
  return `<table><thead><tr><th>Code</th><th>Cause</th><th>Operations</th></tr></thead><tbody>${rows}</tbody></table>`;
}

const named = <T>(byName: Record<string, T> = {}): (T & { name: string })[] =>
  Object.entries(byName).map(([name, value]) => ({ name, ...value }));

function list<T extends Described>(title: string, items: readonly T[], term: (item: T) => string): string {
  if (items.length === 0) return '';
  const rows = join(items, (item) => `<dt>${term(item)}</dt><dd>${toHtml(item.description)}</dd>`);
  return `${title && `<h4>${title}</h4>`}<dl>${rows}</dl>`;
}

function resolve(schema: Schema, schemas: Record<string, Schema>): Schema {
  const name = schema.$ref?.split('/').at(-1);
  return name === undefined ? schema : (schemas[name] as Schema);
}

function properties({ properties = {}, required = [] }: Schema): string {
  return list('', named(properties), ({ name, type, format, enum: values }) => {
    const rule = [format ?? type, values && JSON.stringify(values), required.includes(name) && 'required'];
    return `<code>${name}</code> <span>${toText(rule.filter(Boolean).join(', '))}</span>`;
  });
}

/** A form that the script of the page sends, and shows. */
function tryIt(
  { path, method, parameters = [], responses, 'x-destructive': destroys }: Located,
  bodyType?: string,
  body?: unknown,
): string {
  const types = Object.keys(responses[200]?.content ?? {});
  const field = (label: string, control: string): string => `<label>${toText(label)} ${control}</label>`;
  const input = ({ name, in: place, required, example: value = '' }: Parameter): string =>
    field(
      name,
      `<input name="${name}" data-in="${place}" value="${toText(`${value}`)}"${required ? ' required' : ''}>`,
    );
  return `<details class="try" hidden><summary>Try it</summary>
<form data-method="${method.toUpperCase()}" data-path="${toText(path.slice(1))}"${destroys ? ' data-destroys' : ''}>
${bodyType ? field('Body', `<textarea name="${bodyType}" data-in="body" rows="5" spellcheck="false">${toText(example(body))}</textarea>`) : ''}
${join(parameters, input)}
${types.length > 1 ? field('Accept', `<select name="Accept" data-in="header">${join(types, (type) => `<option>${type}</option>`)}</select>`) : ''}
<p><button>Send</button> <button type="reset">Stop and clear</button></p>
</form>
${copyable('curl')}
<div class="result" role="status"></div></details>`;
}
