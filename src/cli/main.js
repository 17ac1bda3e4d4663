#!/usr/bin/env node
// The entry point. It imports dynamically, since an old Node cannot load main.ts.
import { whenInstalled } from './whenInstalled.js';

whenInstalled(({ onRequiredNode }) => onRequiredNode(start));

async function start() {
  // SIGUSR1 must not open a debugger. Older versions of Node do not have the option for that.
  process.on('SIGUSR1', () => {});
  // A compile cache halves the time to start, if its directory can be written. Threads inherit the variable.
  process.env.NODE_COMPILE_CACHE ||= `${import.meta.dirname}/../../node_modules/.cache/compiled`;
  (await import('node:module')).enableCompileCache();
  await import('./main.ts');
}
