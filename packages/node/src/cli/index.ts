export { once, reportInOneLine } from './errorOutput.ts';
export { printable } from './printable.ts';
