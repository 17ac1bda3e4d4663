import { BrowserBuffer } from './buffer.ts';

// Loaded before any module that uses these globals.
Object.assign(globalThis, { Buffer: BrowserBuffer });
