import { on } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire, findPackageJSON, isBuiltin, stripTypeScriptTypes } from 'node:module';
import { dirname, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

// Stripping types takes 0.2 s, so a thread does it when a page is first opened; this file is both sides.

type Replacements = Record<string, string>;

const IMPORT = /(?<=^(?:import |(?:import|export|\})[^;'"\n]* from )['"])[^'"]+(?=['"];$)/gm;

/**
 * The modules that a page loads, as JavaScript, by path: its entry, as main.ts, and all that are imported from there,
 * below the names of their packages. Some imports are replaced by files.
 * @throws Error if a module imports what browsers do not have
 */
export async function browserModules(
  entry: string,
  replacements: Replacements = {},
): Promise<Map<string, string>> {
  const worker = new Worker(new URL(import.meta.url), { workerData: [entry, replacements] });
  for await (const [message] of on(worker, 'message', { close: ['exit'] }))
    if (message instanceof Map) return message; // under `node --watch` there are others
  throw new Error('the thread that strips types has ended');
}

function modulesOf(entry: string, replacements: Replacements): Map<string, string> {
  const modules = new Map<string, string>();
  const paths = new Map([[entry, 'main.ts']]); // by file, of those that are added below, too
  for (const [file, path] of paths) {
    const { resolve } = createRequire(file);
    const linked = javaScriptOf(file).replace(IMPORT, (specifier) => {
      const imported = replacements[specifier] ?? resolve(specifier);
      if (isBuiltin(imported)) throw new Error(`${path} imports ${specifier}, which browsers do not have`);
      const importedPath = pathOf(imported);
      paths.set(imported, importedPath);
      return `./${relative(dirname(path), importedPath)}`;
    });
    modules.set(path, linked);
  }
  return modules;
}

function pathOf(file: string): string {
  const manifest = findPackageJSON(pathToFileURL(file)) as string;
  const { name } = JSON.parse(readFileSync(manifest, 'utf8'));
  return `${name}/${relative(dirname(manifest), file)}`;
}

function javaScriptOf(file: string): string {
  const text = readFileSync(file, 'utf8');
  return file.endsWith('.ts') ? stripTypeScriptTypes(text) : text;
}

if (!isMainThread && parentPort) {
  process.emitWarning = () => {}; // that Node's function is experimental: Node itself runs this code with the same one
  parentPort.postMessage(modulesOf(...(workerData as [string, Replacements])));
}
