# One image for the command, the relay and the example: the process is Node itself, without a shell
# around it, so that signals arrive.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json tsconfig.json .npmrc ./
COPY packages packages
COPY examples examples
RUN npm ci && npx tsc -b packages/cli && npm prune --omit=dev

FROM node:24-slim
LABEL org.opencontainers.image.title="waybill" \
      org.opencontainers.image.description="Relay, worker host and operator's tool of Waybill" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app /app
USER node
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/app/packages/cli/dist/main.js"]
CMD ["--help"]
