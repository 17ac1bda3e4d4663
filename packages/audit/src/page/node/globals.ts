import { BrowserBuffer } from './buffer.ts';

// Before any module that uses them.
Object.assign(globalThis, { Buffer: BrowserBuffer });
