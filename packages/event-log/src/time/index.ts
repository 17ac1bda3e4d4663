export { FairQueue, type NextTurn, TurnBudget } from './fairQueue.ts';
export { isRfc3339 } from './rfc3339.ts';
export { backOff, sleep, unlessAborted, unlessLater } from './sleep.ts';
