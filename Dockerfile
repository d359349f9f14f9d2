# Magpie in a container. Build: docker build -t magpie-edge .   The page is built inside pip install.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/magpie && /opt/magpie/bin/pip install --no-cache-dir -c constraints.txt .

FROM python:3.11-slim-bookworm
COPY --from=build /opt/magpie /opt/magpie
RUN useradd --create-home magpie && install -d -o magpie -g magpie /var/lib/magpie
USER magpie
WORKDIR /var/lib/magpie
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=3s --start-period=60s \
  CMD ["/opt/magpie/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/livez', timeout=2)"]
ENTRYPOINT ["/opt/magpie/bin/magpie"]
CMD ["run", "/etc/magpie/site.yaml"]
