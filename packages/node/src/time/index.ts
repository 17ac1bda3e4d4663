export { FairQueue, type NextTurn, TurnBudget } from './fairQueue.ts';
export { isRfc3339, parseRfc3339, parseRfc3339RoundedUp } from './rfc3339.ts';
export { backOff, finishedWithin, sleep, unlessAborted, unlessLater } from './sleep.ts';
