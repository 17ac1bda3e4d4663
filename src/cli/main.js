#!/usr/bin/env node
// The entry of the process. Dynamic imports, since an old Node cannot load main.ts.
import { onRequiredNode } from '@event-sourced/event-log/node.js';

onRequiredNode(async () => {
  // SIGUSR1 opens no debugger: an option of Node that does the same is unknown to older ones.
  process.on('SIGUSR1', () => {});
  // What is compiled is kept, so that processes start in half the time; not where the directory cannot be written.
  // Threads inherit the variable.
  process.env.NODE_COMPILE_CACHE ||= `${import.meta.dirname}/../../node_modules/.cache/compiled`;
  (await import('node:module')).enableCompileCache();
  await import('./main.ts');
});
