import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join, relative } from 'node:path';

/** What modules of the server import from Node, and the module that has it in browsers, by path below src/. */
const IN_BROWSERS: Record<string, string> = { 'node:crypto': 'pages/audit/node/crypto.ts' };

const IMPORT = /(?<=^(?:import |(?:import|export|\})[^;'"]* from )')[^']+(?=';$)/gm;

/**
 * The modules that a page loads, as JavaScript, by path below this directory: its entry, and all that are
 * imported from there. @throws Error if one of them imports what browsers do not have
 */
export function browserModules(sources: string, entry: string): Map<string, string> {
  const modules = new Map<string, string>();
  const add = (path: string): void => {
    if (modules.has(path)) return;
    modules.set(path, '');
    const text = withoutTypes(readFileSync(join(sources, path), 'utf8'));
    const javaScript = text.replace(IMPORT, (specifier) => {
      const imported = specifier.startsWith('.') ? join(dirname(path), specifier) : IN_BROWSERS[specifier];
      if (imported === undefined) throw new Error(`${path} imports ${specifier}, which browsers do not have`);
      add(imported);
      const link = relative(dirname(path), imported);
      return link.startsWith('.') ? link : `./${link}`;
    });
    modules.set(path, javaScript);
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
