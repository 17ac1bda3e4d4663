// node test/containers/pull.ts IMAGE
import { getContainerRuntimeClient, ImageName } from 'testcontainers';

const image = ImageName.fromString(process.argv[2] ?? '');
try {
  const { image: images } = await getContainerRuntimeClient();
  await images.pull(image);
  // An aborted pull is not reported.
  if (!(await images.exists(image))) throw new Error('the registry broke off');
} catch (error) {
  process.stderr.write((error as Error).message);
  process.exitCode = 1;
}
