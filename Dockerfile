# Holds a static binary, certificates and an empty /tmp; builds without network. Beforehand: make image-files. Both: make image.
# Certificates are those of the system that builds; where it has none, mount some and set SSL_CERT_FILE.
FROM scratch
COPY bin/image/ /
USER 65532:65532
ENV HOME=/tmp TMPDIR=/tmp
ENTRYPOINT ["/sluice"]
