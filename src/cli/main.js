#!/usr/bin/env node
// The entry of the process. Dynamic imports, since static ones would be loaded before the check.
import './requireNode.js';

// SIGUSR1 opens no debugger: an option of Node that does the same is unknown to older ones.
process.on('SIGUSR1', () => {});

// What is compiled is kept, so that processes start in half the time; not where the directory cannot be written.
// Threads inherit the variable.
process.env.NODE_COMPILE_CACHE ||= `${import.meta.dirname}/../../node_modules/.cache/compiled`;

import('node:module').then(({ enableCompileCache }) => enableCompileCache()).then(() => import('./main.ts'));
