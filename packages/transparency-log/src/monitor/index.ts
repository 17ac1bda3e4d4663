export { checkProof, type CheckProofOptions, readCheckpointFile } from './checkProof.ts';
export { addMonitorCommands, once } from './commands.ts';
export type { CheckEvent } from './eventCheck.ts';
export { monitorLog, type MonitorOptions } from './monitor.ts';
export { readAhead } from './readAhead.ts';
