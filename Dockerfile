# Builds without network from a binary that is built already: make image, or
#   CGO_ENABLED=0 go build -trimpath -o bin/sluice ./cmd/sluice && docker build -t sluice .
# Certificates of the system that builds are copied in; without them, mount some and set SSL_CERT_FILE.
FROM scratch
COPY bin/image/ /
USER 65532:65532
ENV HOME=/tmp TMPDIR=/tmp
ENTRYPOINT ["/sluice"]
