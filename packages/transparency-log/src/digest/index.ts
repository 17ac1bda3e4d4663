// Browsers import these modules, too.

export { cloudEventEntry, cloudEventText, hashedAttributes } from './cloudEventEntry.ts';
export { type ErasureProblem, ErasureRules } from './erasureRules.ts';
export { digestOf, eventEntry, stubOf } from './eventEntry.ts';
export { eventText } from './eventText.ts';
export { openReceipt, type Receipt } from './openReceipt.ts';
export { describeEvent, type EventInText } from './readText.ts';
export { untilEnd } from './untilEnd.ts';
