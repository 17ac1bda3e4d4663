// In syntax that every Node knows, since an old one cannot even load main.ts. The same version is in
// package.json.
const REQUIRED = 24;
if (Number(process.versions.node.split('.')[0]) < REQUIRED) {
  process.stderr.write(`Node ${process.versions.node} is too old; install Node ${REQUIRED} or later.\n`);
  process.exit(1);
}
