import { on } from 'node:events';
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

// Stripping types takes 0.2 s, so it is done on a thread of its own, once a page is opened: this file is both
// sides.

type Page = { sources: string; entry: string };

/** What modules of the server import from Node, and the module that has it in browsers, by path below src/. */
const IN_BROWSERS: Record<string, string> = { 'node:crypto': 'pages/audit/node/crypto.ts' };
/** Modules of packages that browsers can load as they are. */
const PACKAGES = ['@noble/hashes/sha2.js'];

const IMPORT = /(?<=^(?:import |(?:import|export|\})[^;'"\n]* from )['"])[^'"]+(?=['"];$)/gm;

/**
 * The modules that a page loads, as JavaScript, by path: its entry, and all that are imported from there, whose
 * paths are those below the directory of sources, or below packages/. @throws Error if one of them imports what
 * browsers do not have
 */
export async function browserModules(sources: string, entry: string): Promise<Map<string, string>> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { sources, entry } satisfies Page });
  for await (const [message] of on(worker, 'message', { close: ['exit'] }))
    if (message instanceof Map) return message; // under `node --watch` there are others
  throw new Error('the thread that strips types has ended');
}

function modulesOf({ sources, entry }: Page): Map<string, string> {
  const modules = new Map<string, string>();
  const add = (path: string, file = join(sources, path)): string => {
    if (modules.has(path)) return path;
    modules.set(path, '');
    const text = readFileSync(file, 'utf8');
    const javaScript = file.endsWith('.ts') ? withoutTypes(text) : text;
    const importedBy = (specifier: string): string => {
      if (specifier.startsWith('.'))
        return add(join(dirname(path), specifier), join(dirname(file), specifier));
      if (PACKAGES.includes(specifier))
        return add(join('packages', specifier), fileURLToPath(import.meta.resolve(specifier)));
      const replacement = IN_BROWSERS[specifier];
      if (replacement === undefined)
        throw new Error(`${path} imports ${specifier}, which browsers do not have`);
      return add(replacement);
    };
    const linked = javaScript.replace(IMPORT, (specifier) => {
      const link = relative(dirname(path), importedBy(specifier));
      return link.startsWith('.') ? link : `./${link}`;
    });
    modules.set(path, linked);
    return path;
  };
  add(entry);
  return modules;
}

/** Without the warning that Node's function is experimental: Node itself runs this code with the same one. */
function withoutTypes(typeScript: string): string {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(typeScript);
  } finally {
    process.emitWarning = emitWarning;
  }
}

if (!isMainThread && parentPort) parentPort.postMessage(modulesOf(workerData as Page));
