# The checks are the same here and in CI. Tools come from the modules under tools/, at the versions they pin.
SHELL := /bin/bash
GO ?= go
BIN := $(CURDIR)/bin
CORPUS ?= $(CURDIR)/../shared/corpus
FUZZTIME ?= 20s
LDFLAGS := -s -w

.PHONY: build test lint bench fuzz demo schema clean
build: ## the binary, in bin/
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/sluice ./cmd/sluice

test: ## every test; the real charts and Kustomize roots of CORPUS too, where they are
	$(GO) test -count=1 -timeout 15m ./...

lint: $(BIN)/golangci-lint
	$(BIN)/golangci-lint run ./...
	$(GO) vet ./...
	@test -z "$$($(GO) mod tidy -diff 2>&1)" || { $(GO) mod tidy -diff; exit 1; }

$(BIN)/golangci-lint: tools/lint/go.mod
	$(GO) build -C tools/lint -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/helm $(BIN)/kustomize: tools/go.mod
	$(GO) build -C tools -o $(BIN)/ helm.sh/helm/v3/cmd/helm sigs.k8s.io/kustomize/kustomize/v5

bench: build $(BIN)/helm ## side by side with `helm template` as a process for each target; CLUSTERS="100 1000" chooses the fleets
	SLUICE_BIN=$(BIN)/sluice HELM_BIN=$(BIN)/helm $(GO) run ./testdata/bench $(if $(CLUSTERS),-clusters "$(CLUSTERS)")

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; $(GO) test -run xxx -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; done

demo: build ## hydrates a small fleet twice, and shows what became of it
	@SLUICE=$(BIN)/sluice bash testdata/demo.sh

schema: ## writes docs/schema from the Go types
	$(GO) test ./hydrate/fleet -run TestSchemas -update

clean:
	rm -rf $(BIN)
