# Magpie in a container. Build: docker build -t magpie-edge .   The page is built inside pip install.
# Another base may be given: any Debian with Python 3.11 or newer, its venv and pip.
ARG BASE_IMAGE=python:3.11.11-slim-bookworm
FROM ${BASE_IMAGE} AS build
WORKDIR /src
COPY . .
# Extras that pip installs, e.g. --build-arg EXTRAS=[kubernetes] for the jobs of a fleet on Kubernetes.
ARG EXTRAS=
RUN python3 -m venv /opt/magpie && /opt/magpie/bin/pip install --no-cache-dir -c constraints.txt ".${EXTRAS}"

FROM ${BASE_IMAGE}
COPY --from=build /opt/magpie /opt/magpie
COPY configs/container/site.yaml /etc/magpie/site.yaml
# A fixed number, so that folders of the host that are mounted can be given to it.
RUN useradd --uid 10001 --create-home magpie && install -d -o magpie -g magpie /var/lib/magpie
USER magpie
# Model files of others, on the volume: `magpie models pull` (docs/models.md).
ENV MAGPIE_MODELS=/var/lib/magpie/model-files
WORKDIR /var/lib/magpie
VOLUME /var/lib/magpie
# The page and REST; the Open Inference Protocol by HTTP and by gRPC.
EXPOSE 8080 8000 8001
HEALTHCHECK --interval=15s --timeout=3s --start-period=60s \
  CMD ["/opt/magpie/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/livez', timeout=2)"]
ENTRYPOINT ["/opt/magpie/bin/magpie"]
CMD ["run", "--log-format", "json", "/etc/magpie/site.yaml"]
