// The entry of the process, in syntax that every Node knows: an old one cannot even load main.ts.
const [major] = process.versions.node.split('.');
const REQUIRED = 24;
if (Number(major) < REQUIRED) {
  process.stderr.write(`Node ${process.versions.node} is too old; use Node ${REQUIRED} or later.\n`);
  process.exitCode = 1;
} else import('./main.ts');
