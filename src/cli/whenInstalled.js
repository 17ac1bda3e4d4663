// Runs on every Node since 18, before and after `npm ci`: JavaScript without dependencies.

/** Calls `use` with the module that starts the installed Node. Without the dependencies, says how to install them. */
export function whenInstalled(use) {
  import('@event-sourced/event-log/node.js').then(use, () => {
    process.stderr.write('The dependencies are missing; run `npm ci` first.\n');
    process.exitCode = 1;
  });
}
