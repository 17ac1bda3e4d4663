// An old Node cannot load main.ts, but must parse this file. package.json has the same version.
const REQUIRED = 24;
if (Number(process.versions.node.split('.')[0]) < REQUIRED) {
  process.stderr.write(`Node ${process.versions.node} is too old; install Node ${REQUIRED} or later.\n`);
  if (process.env.WATCH_REPORT_DEPENDENCIES) process.kill(process.ppid, 'SIGHUP'); // it would wait for a change
  process.exit(1);
}
