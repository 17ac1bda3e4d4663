export { type CheckProofOptions, checkProof, readCheckpointFile } from './checkProof.ts';
export { addMonitorCommands, once } from './commands.ts';
export type { CheckEvent } from './eventCheck.ts';
export { monitorLog } from './monitor.ts';
export type { MonitorOptions } from './monitorOptions.ts';
