export { monitorLog } from './monitor.ts';
export type { MonitorOptions } from './monitorOptions.ts';
