# Debian, not Alpine: Node's support for musl is experimental.
FROM node:26.10.0-trixie-slim@sha256:ec7758ee051e457b468b32bde57b0879010b325bb9862718e9615225ce4aaae1 AS base

FROM base AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY packages packages
# The image's own Node runs the service.
RUN npm ci --omit=dev --omit=optional
COPY bin bin
COPY docs/guide.md docs/
COPY projections projections
COPY src src
# Readable for the user below, with any umask of the checkout.
RUN chmod -R a+rX .

FROM base
WORKDIR /app
# A new volume takes owner and mode from the image's directory. /key is for a KEY_FILE that instances share.
RUN install -d -m 700 -o node -g node /data /key
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/package.json /app/.npmrc ./
COPY --from=build /app/bin bin
COPY --from=build /app/docs docs
COPY --from=build /app/packages packages
COPY --from=build /app/projections projections
COPY --from=build /app/src src
RUN ln -s /app/bin/plant-store /app/bin/transparency-log /usr/local/bin/
ENV HOST=0.0.0.0 PORT=3000 DATA_DIR=/data
ARG COMMIT=
LABEL org.opencontainers.image.title="plant-store" \
  org.opencontainers.image.version="2.0.0" \
  org.opencontainers.image.revision="${COMMIT}" \
  org.opencontainers.image.licenses="MIT"
ENV IMAGE_COMMIT=${COMMIT}
# How log lines and the help call the command; all processes of a container have the same settings.
ENV IMAGE_COMMAND=plant-store
# Compiled code halves the time to start. It counts for one user and path, and later the file system is read-only.
RUN install -d -o node -g node node_modules/.cache
USER node
RUN DATA_DIR=/tmp/data PORT=0 plant-store >/tmp/lines & \
  until grep listening /tmp/lines; do kill -0 $! && sleep 1; done; kill $! && wait $! && rm -r /tmp/data /tmp/lines
VOLUME /data
EXPOSE 3000
# Live, not ready: an orchestrator replaces unhealthy containers, which does not help when the event store is unavailable.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.PORT + '/health/live').then(({ ok }) => process.exit(ok ? 0 : 1))"]
CMD ["plant-store"]
