#!/usr/bin/env node
// The entry point. It imports dynamically, since an old Node cannot load the rest.
import { onRequiredNode } from '@event-sourced/event-log/node.js';

onRequiredNode(async () => (await import('@event-sourced/transparency-log/cli')).main(process));
