# One image for the API, the worker and every other command: docker run vmemo COMMAND …
# The API requires a key: docker run -p 127.0.0.1:8000:8000 -e VMEMO_ADMIN_KEY -v vmemo:/data vmemo
FROM python:3.13-slim

RUN useradd --create-home --uid 10001 vmemo && mkdir /data && chown vmemo /data
COPY pyproject.toml constraints.txt README.md LICENSE /app/
COPY src /app/src
COPY models /app/models
COPY server /app/server
COPY hindsight /app/hindsight
RUN pip install --no-cache-dir --constraint /app/constraints.txt "/app[postgres,encryption]" \
    "/app/server[mcp,metrics,telemetry]" /app/hindsight

USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["vmemo"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--db", "sqlite:////data/memory.db", "--json"]
