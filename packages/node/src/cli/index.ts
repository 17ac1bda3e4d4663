export { once, reportInOneLine } from './errorOutput.ts';
export { errorText, isFault } from './errorText.ts';
export { printable, printableJson } from './printable.ts';
