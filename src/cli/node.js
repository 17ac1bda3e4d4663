// `node src/cli/node.js ARGS…` runs `node ARGS…` on the Node that npm has installed: npm scripts start with it.
import('@event-sourced/event-log/node.js').then(
  ({ runNode }) => runNode(process.argv.slice(2)),
  () => {
    process.stderr.write('The dependencies are missing; run `npm ci` first.\n');
    process.exitCode = 1;
  },
);
