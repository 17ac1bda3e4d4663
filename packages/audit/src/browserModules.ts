import { on } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire, findPackageJSON, isBuiltin, stripTypeScriptTypes } from 'node:module';
import { dirname, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

// Stripping types takes 0.2 s, so a thread does it when a page is first opened. This file has the code of both threads.

type Replacements = Record<string, string>;

const IMPORT = /(?<=^(?:import |(?:import|export|\})[^;'"\n]* from )['"])[^'"]+(?=['"];$)/gm;

/**
 * The modules of a page as JavaScript, by path: the entry, as main.ts, and all its imports, below the names of their
 * packages. `replacements` maps imports to files. @throws Error if a module imports something that browsers do not have
 */
export async function browserModules(
  entry: string,
  replacements: Replacements = {},
): Promise<Map<string, string>> {
  const worker = new Worker(new URL(import.meta.url), { workerData: [entry, replacements] });
  for await (const [message] of on(worker, 'message', { close: ['exit'] }))
    if (message instanceof Map) return message; // `node --watch` posts other messages
  throw new Error('the thread that strips types has ended');
}

function collectModules(entry: string, replacements: Replacements): Map<string, string> {
  const modules = new Map<string, string>();
  const paths = new Map([[entry, 'main.ts']]); // by file; the loop below adds more
  for (const [file, path] of paths) {
    const { resolve } = createRequire(file);
    const linked = readJavaScript(file).replace(IMPORT, (specifier) => {
      const imported = replacements[specifier] ?? resolve(specifier);
      if (isBuiltin(imported)) throw new Error(`${path} imports ${specifier}, which browsers do not have`);
      const importedPath = modulePath(imported);
      paths.set(imported, importedPath);
      return `./${relative(dirname(path), importedPath)}`;
    });
    modules.set(path, linked);
  }
  return modules;
}

function modulePath(file: string): string {
  const manifest = findPackageJSON(pathToFileURL(file)) as string;
  const { name } = JSON.parse(readFileSync(manifest, 'utf8'));
  return `${name}/${relative(dirname(manifest), file)}`;
}

function readJavaScript(file: string): string {
  const text = readFileSync(file, 'utf8');
  return file.endsWith('.ts') ? stripTypeScriptTypes(text) : text;
}

if (!isMainThread && parentPort) {
  process.emitWarning = () => {}; // Node's function is experimental, but Node uses it itself to run this code
  parentPort.postMessage(collectModules(...(workerData as [string, Replacements])));
}
