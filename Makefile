# The checks are the same here and in CI. Tools come from the modules under tools/, at the versions they pin.
SHELL := /bin/bash
GO ?= go
BIN := $(CURDIR)/bin
CORPUS ?= $(CURDIR)/../shared/corpus
FUZZTIME ?= 20s
LDFLAGS := -s -w
# For all alike, so that what is built is compiled once for binaries, tests and linters.
export GOFLAGS := -trimpath

.PHONY: build drill test test-e2e lint bench fuzz demo demo-service dist image image-files schema clean
build: ## the binary, in bin/
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/sluice ./cmd/sluice

test: ## the quick tests; the real charts and Kustomize roots of CORPUS too, where they are
	$(GO) test -short -count=1 -timeout 15m ./...
	$(GO) test -C tools/gitops -count=1 -timeout 15m ./...

E2E := ./cmd/... ./bot/queue ./hydrate/promote ./hydrate/fleet ./hydrate/gitstore
test-e2e: ## the slow tests: stories of the service, processes that are killed, clusters of queues
	SLUICE_MODEL_HISTORIES=10000 $(GO) test -count=1 -timeout 30m $(E2E)

lint: $(BIN)/golangci-lint $(BIN)/actionlint
	$(BIN)/golangci-lint run ./...
	$(BIN)/actionlint .github/workflows/*.yaml docs/examples/github/*.yaml
	$(GO) vet ./...
	$(GO) vet -C tools/gitops ./...
	@test -z "$$($(GO) mod tidy -diff 2>&1)" || { $(GO) mod tidy -diff; exit 1; }
	$(GO) mod tidy -C tools/gitops -diff

$(BIN)/golangci-lint: tools/lint/go.mod
	$(GO) build -C tools/lint -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/actionlint: tools/actionlint/go.mod
	$(GO) build -C tools/actionlint -o $@ github.com/rhysd/actionlint/cmd/actionlint

$(BIN)/helm $(BIN)/kustomize: tools/go.mod
	$(GO) build -C tools -o $(BIN)/ helm.sh/helm/v3/cmd/helm sigs.k8s.io/kustomize/kustomize/v5

bench: build $(BIN)/helm ## side by side with `helm template` as a process for each target; CLUSTERS="100 1000" chooses the fleets, ONLY=diff,service the parts
	SLUICE_BIN=$(BIN)/sluice HELM_BIN=$(BIN)/helm $(GO) run ./testdata/bench $(if $(CLUSTERS),-clusters "$(CLUSTERS)") $(if $(ONLY),-only $(ONLY)) $(if $(ROUNDS),-rounds $(ROUNDS))

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; $(GO) test -run xxx -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; done

demo: build ## hydrates a small fleet twice, and shows what became of it
	@SLUICE=$(BIN)/sluice bash testdata/demo.sh

FORGE ?= github
demo-service: build ## plays a day of the service without any account: a forge in memory, Git over HTTP, the real process; FORGE=gitlab
	@$(GO) run ./testdata/demoservice -sluice $(BIN)/sluice -forge $(FORGE)

drill: build ## plays an incident: a bad canary, rollbacks, an outage of the forge, a fix; prints what the person on call sees
	@$(GO) run ./testdata/drill -sluice $(BIN)/sluice

VERSION ?= 0.0.0
dist: ## archives of all systems in dist/, with checksums, as a release has them
	rm -rf dist && mkdir -p dist
	@set -e; for system in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
	  os=$${system%/*}; arch=$${system#*/}; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' -o dist/sluice ./cmd/sluice; \
	  tar -czf dist/sluice_$(VERSION)_$${os}_$$arch.tar.gz -C dist sluice; rm dist/sluice; \
	done; cd dist && sha256sum *.tar.gz > checksums.txt

IMAGE ?= sluice
FILES ?= bin/image
ARCH ?= $(shell $(GO) env GOARCH)
image-files: ## what the Dockerfile copies, in FILES: a static binary for linux/ARCH, certificates, an empty /tmp
	rm -rf $(FILES) && mkdir -p $(FILES)/etc/ssl/certs $(FILES)/tmp && chmod 1777 $(FILES)/tmp
	CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) $(GO) build -ldflags '$(LDFLAGS)' -o $(FILES)/sluice ./cmd/sluice
	@for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do \
	  if [ -f $$f ]; then cp $$f $(FILES)/etc/ssl/certs/ca-certificates.crt; break; fi; done
	@[ -f $(FILES)/etc/ssl/certs/ca-certificates.crt ] || echo "no certificates found on this system: the image has none; mount some and set SSL_CERT_FILE" >&2

image: image-files ## the files, then the image IMAGE for linux/ARCH where a builder answers
	@if command -v docker >/dev/null && docker info >/dev/null 2>&1; then docker build --platform linux/$(ARCH) -t $(IMAGE) .; \
	elif command -v podman >/dev/null; then podman build --platform linux/$(ARCH) -t $(IMAGE) .; \
	else echo "NO IMAGE WAS BUILT. $(FILES) has what it would hold." >&2; \
	  if command -v docker >/dev/null; then echo "docker is installed, but its daemon does not answer: start it, set DOCKER_HOST, or install podman; \`docker info\` says more." >&2; \
	  else echo "Neither docker nor podman is installed." >&2; fi; fi

schema: ## writes docs/schema from the Go types
	$(GO) test ./hydrate/fleet -run TestSchemas -update

clean:
	rm -rf $(BIN)
