import { on } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

// Stripping types takes 0.2 s, so a thread does it when a page is first opened. This file has the code of both threads.

/** Directories, without those below them, by their path on the page. */
type Directories = Record<string, string>;

/**
 * The modules of directories as JavaScript, by path and name. Browsers resolve their relative imports; other imports
 * need the import map of the page.
 */
export async function browserModules(directories: Directories): Promise<Map<string, string>> {
  const worker = new Worker(new URL(import.meta.url), { workerData: directories });
  for await (const [message] of on(worker, 'message', { close: ['exit'] }))
    if (message instanceof Map) return message; // `node --watch` posts other messages
  throw new Error('the thread that strips types has ended');
}

function readModules(directories: Directories): Map<string, string> {
  const modules = new Map<string, string>();
  for (const [path, directory] of Object.entries(directories))
    for (const name of globSync('*.{js,ts}', { cwd: directory, exclude: ['*.d.ts'] })) {
      const text = readFileSync(join(directory, name), 'utf8');
      modules.set(`${path}/${name}`, name.endsWith('.ts') ? stripTypeScriptTypes(text) : text);
    }
  return modules;
}

if (!isMainThread && parentPort) {
  process.emitWarning = () => {}; // Node's function is experimental, but Node uses it itself to run this code
  parentPort.postMessage(readModules(workerData as Directories));
}
