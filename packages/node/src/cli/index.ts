export { once, reportInOneLine } from './errorOutput.ts';
export { printable, printableJson } from './printable.ts';
