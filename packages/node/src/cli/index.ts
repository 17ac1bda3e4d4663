export { once, reportInOneLine } from './errorOutput.ts';
export { errorText } from './errorText.ts';
export { printable, printableJson } from './printable.ts';
