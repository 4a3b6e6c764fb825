# The checks are the same here and in CI. Tools come from the modules under tools/, at the versions they pin.
SHELL := /bin/bash
GO ?= go
BIN := $(CURDIR)/bin
CORPUS ?= $(CURDIR)/../shared/corpus
FUZZTIME ?= 20s
LDFLAGS := -s -w
# The same for all, so that packages are compiled once for binaries, tests and linters. Without cgo, one static binary runs on every image.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath

.PHONY: bed bed-up test-bed test-bed-quick licenses reproducible build drill test test-stories stories-services stories-pages test-e2e e2e-services e2e-packages test-thorough browser lint lint-tools bench parity parity-references fuzz demo demo-service dist image image-files schema clean
build: ## the binary, in bin/
	@[ -e $(BIN)/sluice ] || echo "compiling Sluice and its dependencies: a few minutes if Go's build cache is empty, seconds afterwards"
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/sluice ./cmd/sluice

# Tests are linked without debug information: that takes a third less of the time of each of the packages. Their repositories
# live for seconds and are in memory (tools/in-memory). Git neither maintains nor syncs them. A test runs without GOTMPDIR, because
# since Go 1.26 t.TempDir prefers it to TMPDIR, and Go's build files stay on the disk.
TEST := GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=maintenance.auto GIT_CONFIG_VALUE_0=false GIT_CONFIG_KEY_1=core.fsync GIT_CONFIG_VALUE_1=none \
	$(CURDIR)/tools/in-memory $(GO) test -count=1 -ldflags '$(LDFLAGS)' -exec 'env -u GOTMPDIR'
test: ## the quick tests; some of the real charts and Kustomize roots of CORPUS too, where they are
	$(TEST) -short -timeout 15m ./...
	cd tools/slowtests && $(TEST) ./...

# The tests that make test skips or cuts short, in two halves side by side. The two packages that start services, ./cmd/sluice and
# ./cmd/internal/app, are in one half, so that they never run at the same time.
SERVICES := ./cmd/sluice ./cmd/internal/app
KILLS ?= 24
HISTORIES ?= 1000
HALF := $(shell echo $$((($$(getconf _NPROCESSORS_ONLN) + 1) / 2))) # of the cores
SLOW := $(filter-out $(SERVICES),$(shell grep -rl --include='*_test.go' --exclude-dir=tools --exclude-dir=node_modules 'testing\.Short()' . | xargs -n1 dirname | sort -u))
test-e2e: browser ## the slow tests: stories of the service, processes that are killed, clusters of queues, pages in Chromium, what Flux builds
	$(MAKE) -j2 --no-print-directory e2e-services e2e-packages

# One of each kind of the slow tests, for .ci/run, which may take 20 minutes. The nightly workflow runs all of test-e2e.
STORIES := ^(TestRequestsOfAReview|TestStory|TestPromotionByChat|TestGoldenOwn|TestSignalsEndEveryVerb|TestKilledRunsLeaveOldOrNewBranches)$$
STORIES := $(STORIES)|^TestScripts$$/^(rollback|repair|promote_failure|hydrate_policy|ci_github|import_flux|import_argocd)$$
test-stories: browser ## some of the slow tests, in a few minutes
	$(MAKE) -j2 --no-print-directory stories-services stories-pages

stories-services:
	SLUICE_KILLS=4 $(TEST) -p 1 -timeout 20m -run '$(STORIES)' $(SERVICES)

stories-pages:
	SLUICE_BROWSER=required SLUICE_TREE_HISTORIES=6 $(TEST) -p 1 -timeout 20m -run '^(TestPageInChromium|TestModelOnTrees)$$' ./report/page ./promote

e2e-services: $(BIN)/slowtests
	run=$$($(BIN)/slowtests $(SERVICES)) && SLUICE_BROWSER=required SLUICE_KILLS=$(KILLS) $(TEST) -p 1 -timeout 60m -run "$$run" $(SERVICES)

e2e-packages: $(BIN)/slowtests
	run=$$($(BIN)/slowtests $(SLOW)) && SLUICE_BROWSER=required SLUICE_MODEL_HISTORIES=$(HISTORIES) $(TEST) -p $(HALF) -timeout 60m -run "$$run" $(SLOW)
	cd tools/gitops && $(TEST) -p $(HALF) -timeout 15m ./...
	cd tools/gitops/fields && $(TEST) ./...

$(BIN)/slowtests: tools/slowtests/main.go
	$(GO) build -C tools/slowtests -o $@ .

# Real servers for tests and for a demonstration (docs/bed.md), in a folder outside of the clone, so that all clones share them. A
# server is built again when its files in bed/ change; the name of a stamp has their digest, because a new clone has new times.
export SLUICE_BED ?= $(HOME)/.cache/sluice-bed
BED := $(SLUICE_BED)
stamp = $(BED)/$(1)/built-$(shell cat $(sort $(wildcard bed/$(1)/*)) | sha256sum | cut -c1-16)
bed: $(foreach part,gitea kubernetes kwok flux argocd prometheus cluster-api,$(call stamp,$(part))) ## builds the real servers of the bed once: about twenty minutes with an empty build cache; needs a C compiler

$(call stamp,kubernetes):
	@echo "building an API server and kubectl into $(@D): about ten minutes on two cores with an empty build cache"
	@mkdir -p $(@D)
	$(GO) build -C bed/kubernetes -ldflags '-s -w' -o $(@D)/kubernetes .
	@rm -f $(@D)/built-*; touch $@

$(call stamp,gitea):
	@echo "building Gitea into $(@D): about ten minutes on two cores with an empty build cache"
	@mkdir -p $(@D)/static
	@set -e; cd bed/gitea; module=code.gitea.io/gitea; $(GO) mod download $$module; \
	  version=$$($(GO) list -m -f '{{.Version}}' $$module); folder=$$($(GO) list -m -f '{{.Dir}}' $$module); \
	  cp -rf $$folder/templates $$folder/options $$folder/public $(@D)/static/; chmod -R u+w $(@D)/static; \
	  CGO_ENABLED=1 $(GO) build -tags 'sqlite sqlite_unlock_notify' -ldflags "$(LDFLAGS) -X main.version=$${version#v}" -o $(@D)/gitea .
	@rm -f $(@D)/built-*; touch $@

$(call stamp,kwok):
	@echo "building kwok into $(@D): about two minutes on two cores with an empty build cache"
	@mkdir -p $(@D)/stages
	@set -e; cd bed/kwok; module=sigs.k8s.io/kwok; $(GO) mod download $$module; folder=$$($(GO) list -m -f '{{.Dir}}' $$module); \
	  cp -f $$folder/kustomize/stage/node/fast/node-*.yaml $$folder/kustomize/stage/pod/fast/pod-*.yaml $(@D)/stages/; \
	  $(GO) build -ldflags '$(LDFLAGS)' -o $(@D)/kwok $$module/cmd/kwok; chmod -R u+w $(@D)/stages
	@rm -f $(@D)/built-*; touch $@

$(call stamp,prometheus):
	@echo "building Prometheus into $(@D): about two minutes on two cores with an empty build cache"
	@mkdir -p $(@D)
	$(GO) build -C bed/prometheus -tags remove_all_sd -ldflags '$(LDFLAGS)' -o $(@D)/prometheus github.com/prometheus/prometheus/cmd/prometheus
	@rm -f $(@D)/built-*; touch $@

# Only the definitions of its kinds: a test plays its controllers.
$(call stamp,cluster-api):
	@mkdir -p $(@D)/crds
	@set -e; cd bed/cluster-api; module=sigs.k8s.io/cluster-api; $(GO) mod download $$module; \
	  cp -f $$($(GO) list -m -f '{{.Dir}}' $$module)/core/config/crd/bases/cluster.x-k8s.io_*.yaml $(@D)/crds/; chmod -R u+w $(@D)/crds
	@rm -f $(@D)/built-*; touch $@

# Flux's controllers are programs of other modules, so their main packages are built as they are.
$(call stamp,flux):
	@echo "building Flux's controllers into $(@D): about ten minutes on two cores with an empty build cache"
	@mkdir -p $(@D)/crds
	@set -e; cd bed/flux; for name in source kustomize helm; do module=github.com/fluxcd/$$name-controller; $(GO) mod download $$module; \
	  cp -f $$($(GO) list -m -f '{{.Dir}}' $$module)/config/crd/bases/*.yaml $(@D)/crds/; \
	  $(GO) build -ldflags '$(LDFLAGS)' -o $(@D)/$$name-controller $$module; done; \
	  $(GO) build -ldflags '$(LDFLAGS)' -o $(@D)/flux .; chmod -R u+w $(@D)/crds
	@rm -f $(@D)/built-*; touch $@

$(call stamp,argocd):
	@echo "building Argo CD into $(@D): about five minutes on two cores with an empty build cache"
	@mkdir -p $(@D)/crds $(@D)/config
	@set -e; cd bed/argocd; module=github.com/argoproj/argo-cd/v3; $(GO) mod download $$module; \
	  folder=$$($(GO) list -m -f '{{.Dir}}' $$module); cp -f $$folder/hack/git-verify-wrapper.sh $(@D)/; \
	  cp -f $$folder/manifests/crds/*-crd.yaml $(@D)/crds/; \
	  cp -f $$folder/manifests/base/config/argocd-*.yaml $$folder/manifests/base/notification/argocd-notifications-cm.yaml \
	    $$folder/manifests/base/notification/argocd-notifications-secret.yaml $(@D)/config/; \
	  $(GO) build -ldflags '$(LDFLAGS)' -o $(@D)/argocd .; chmod -R u+w $(@D)/crds $(@D)/config; chmod 755 $(@D)/git-verify-wrapper.sh
	@rm -f $(@D)/built-*; touch $@

# One package at a time: each test of these packages starts servers of its own.
test-bed: bed ## the contract of the forge adapters and the stories of the service on a real Gitea, also with Flux and Argo CD on a real API server; what diffs, bootstrap and charts say on a real API server
	SLUICE_BED_REQUIRED=1 CORPUS=$(CORPUS) $(TEST) -p 1 -timeout 30m -run '^(TestAPIServer.*|TestRealPrometheus)$$' ./diff ./hydrate/bootstrap ./renderer ./service/check
	SLUICE_BED_REQUIRED=1 SLUICE_FORGES=gitea $(TEST) -p 1 -timeout 30m -run '^(TestContract.*|TestReal.*)$$' ./bot/forge/gitea
	SLUICE_BED_REQUIRED=1 SLUICE_FORGES=gitea $(TEST) -p 1 -timeout 30m ./cmd/internal/app

test-bed-quick: bed ## some of test-bed, in a few minutes, for .ci/run
	SLUICE_BED_REQUIRED=1 $(TEST) -p 1 -timeout 10m -run '^(TestAPIServer.*|TestRealPrometheus)$$' ./diff ./hydrate/bootstrap ./service/check
	SLUICE_BED_REQUIRED=1 SLUICE_FORGES=gitea $(TEST) -p 1 -timeout 10m -run '^(TestContract|TestReal.*)$$' ./bot/forge/gitea
	SLUICE_BED_REQUIRED=1 SLUICE_FORGES=gitea $(TEST) -p 1 -timeout 10m -run '^(TestStory|TestFluxAppliesWaves)$$/^gitea$$' ./cmd/internal/app

bed-up: build bed ## a Gitea with a fleet, the service with its pages, a merge request with Sluice's comment and a cluster that Flux syncs, until Ctrl-C
	@$(GO) run ./bed/up -sluice $(BIN)/sluice

test-thorough: ## what takes too long for each commit: branches of the largest repositories of the corpus, every hostile case, every trouble and every story of the service on both forges, 200 killed runs, 10,000 reviews of generated fleets, 10,000 promotion histories and 300 on real trees, 3,000 random charts, Argo CD's own tests
	CORPUS=$(CORPUS) SLUICE_GOLDEN=all $(GO) test -count=1 -timeout 60m ./cmd/sluice -run TestGoldenCorpus
	SLUICE_HOSTILE=all $(GO) test -count=1 -timeout 90m ./cmd/sluice -run TestHostile
	SLUICE_KILLS=200 SLUICE_KILL_SEED=$$RANDOM $(GO) test -count=1 -timeout 60m ./cmd/sluice -run Kill
	SLUICE_FORGES=all $(GO) test -count=1 -timeout 60m ./cmd/internal/app
	SLUICE_TROUBLES=all $(GO) test -count=1 -timeout 60m ./cmd/sluice -run TestServiceInTrouble
	SLUICE_REVIEW_PAIRS=10000 $(GO) test -count=1 -timeout 60m ./review -run TestNothingUnjudgedSucceeds
	SLUICE_MODEL_HISTORIES=10000 $(GO) test -count=1 -timeout 60m ./rollout -run TestModel
	SLUICE_RANDOM_CHARTS=3000 $(GO) test -count=1 -timeout 60m ./renderer/helm -run TestRandomCharts
	CORPUS=$(CORPUS) SLUICE_MUTATE_SEED=$$RANDOM $(GO) test -count=1 -timeout 60m ./hydrate/compare -run TestNoChangeOfRealRepositoriesIsMissed
	SLUICE_TREE_HISTORIES=300 $(GO) test -count=1 -timeout 60m ./promote -run TestModelOnTrees
	$(GO) test -C tools/gitops/argocd -count=1 -timeout 30m ./...
	$(GO) test -C tools/gitops/argocd -modfile=argocd-3.2.mod -tags=argocd32 -count=1 -timeout 30m ./...

browser: tools/browser/node_modules/.package-lock.json ## Chromium and the packages of the tests of web pages, pinned in tools/browser
	@node tools/browser/browser.js

tools/browser/node_modules/.package-lock.json: tools/browser/package.json tools/browser/package-lock.json
	npm ci --prefix tools/browser --ignore-scripts --no-audit --no-fund
	@touch $@

# golangci-lint runs vet on the project's own module. The modules of tools/gitops compile Flux and helmfile, which takes minutes, so
# that the nightly workflow vets them.
lint: $(BIN)/golangci-lint $(BIN)/actionlint
	$(BIN)/golangci-lint run ./...
	$(BIN)/actionlint .github/workflows/*.yaml docs/examples/github/*.yaml
	$(GO) vet -C tools/slowtests ./...
	$(GO) mod tidy -diff
	$(GO) mod tidy -C tools/gitops -diff

lint-tools: ## go vet of the modules that compile other tools
	$(GO) vet -C tools/gitops ./...
	$(GO) vet -C tools/gitops/fields ./...

$(BIN)/golangci-lint: tools/lint/go.mod
	$(GO) build -C tools/lint -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/actionlint: tools/actionlint/go.mod
	$(GO) build -C tools/actionlint -o $@ github.com/rhysd/actionlint/cmd/actionlint

$(BIN)/helm $(BIN)/kustomize: tools/go.mod
	$(GO) build -C tools -o $(BIN)/ helm.sh/helm/v3/cmd/helm sigs.k8s.io/kustomize/kustomize/v5

bench: build $(BIN)/helm $(BIN)/kustomize ## side by side with `helm template` as a process for each target; CLUSTERS="100 1000" and APPS=20 choose the fleets, ONLY=diff,service the parts (CONTRIBUTING.md lists them)
	SLUICE_BIN=$(BIN)/sluice HELM_BIN=$(BIN)/helm KUSTOMIZE_BIN=$(BIN)/kustomize CORPUS=$(CORPUS) $(GO) run ./testdata/bench $(if $(CLUSTERS),-clusters "$(CLUSTERS)") $(if $(APPS),-apps $(APPS)) $(if $(ONLY),-only $(ONLY)) $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(REPOSITORIES),-repositories $(REPOSITORIES)) $(if $(HOURS),-hours $(HOURS)) $(if $(SPEED),-speed $(SPEED))

REFERENCES := $(BIN)/references
parity: ## renders the charts and repositories of CORPUS with Sluice and with Helm 3 and 4, Kustomize, Flux's and Argo CD's code, compares the objects, and writes docs/parity.md; ONLY=kustomize,time chooses parts
	mkdir -p $(BIN)/parity $(REFERENCES)/argocd
ifneq ($(ONLY),page)
	$(MAKE) --no-print-directory build
	$(GO) build -C tools -o $(BIN)/parity/helm3 helm.sh/helm/v3/cmd/helm
	$(GO) build -C tools -o $(BIN)/parity/helm4 helm.sh/helm/v4/cmd/helm
	$(GO) build -C tools -o $(BIN)/parity/kustomize sigs.k8s.io/kustomize/kustomize/v5
endif
	SLUICE_BIN=$(BIN)/sluice TOOLS=$(BIN)/parity CORPUS=$(CORPUS) \
	  REFERENCE_FLUX=$(wildcard $(REFERENCES)/sluice-reference-flux) REFERENCE_ARGOCD=$(wildcard $(REFERENCES)/argocd/sluice-reference-argocd) \
	  $(GO) run ./cmd/internal/parity $(if $(ONLY),-only $(ONLY)) $(if $(ROUNDS),-rounds $(ROUNDS))

parity-references: ## builds Flux's and Argo CD's code for make parity: minutes, and memory; without it, their results stay as they are
	$(GO) build -C tools/gitops -o $(REFERENCES)/ ./sluice-reference-flux
	$(GO) build -C tools/gitops/argocd -o $(REFERENCES)/argocd/ ./sluice-reference-argocd helm.sh/helm/v4/cmd/helm sigs.k8s.io/kustomize/kustomize/v5

BASE ?= origin/main
LIMIT ?= 1.3
bench-compare: build ## processor time of small rows beside the revision BASE, in turn; fails above LIMIT (1.3)
	@set -e; dir=$$(mktemp -d); trap 'git worktree remove --force '$$dir'/base 2>/dev/null; rm -rf '$$dir EXIT; \
	  git worktree add -q --detach $$dir/base "$$(git merge-base HEAD $(BASE))"; \
	  echo "building $$(git -C $$dir/base log -1 --format='%h %s')"; \
	  $(GO) build -C $$dir/base -ldflags '$(LDFLAGS)' -o $$dir/sluice ./cmd/sluice; \
	  SLUICE_BIN=$(BIN)/sluice $(GO) run ./testdata/bench -base $$dir/sluice -limit $(LIMIT)

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; $(GO) test -run xxx -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$pkg; \
	  done; done

demo: build ## hydrates a small fleet twice, shows what became of it, and writes its pages to bin/demo-site
	@SLUICE=$(BIN)/sluice SITE=$(BIN)/demo-site bash testdata/demo.sh

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
	  GOOS=$$os GOARCH=$$arch $(GO) build $(ONE) -ldflags '$(LDFLAGS)' -o dist/sluice ./cmd/sluice; \
	  tar -czf dist/sluice_$(VERSION)_$${os}_$$arch.tar.gz -C dist sluice; rm dist/sluice; \
	done; cd dist && sha256sum *.tar.gz > checksums.txt

IMAGE ?= sluice
FILES ?= bin/image
ARCH ?= $(shell $(GO) env GOARCH)
COMPILE_FLAGS ?= # of go build; the release workflow passes those of released binaries
image-files: ## what the Dockerfile copies, in FILES: a static binary for linux/ARCH, certificates, an empty /tmp
	rm -rf $(FILES) && mkdir -p $(FILES)/etc/ssl/certs $(FILES)/tmp && chmod 1777 $(FILES)/tmp
	GOOS=linux GOARCH=$(ARCH) $(GO) build $(COMPILE_FLAGS) -ldflags '$(LDFLAGS)' -o $(FILES)/sluice ./cmd/sluice
	@for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do \
	  if [ -f $$f ]; then cp $$f $(FILES)/etc/ssl/certs/ca-certificates.crt; break; fi; done
	@[ -f $(FILES)/etc/ssl/certs/ca-certificates.crt ] || echo "no certificates found on this system: the image has none; mount some and set SSL_CERT_FILE" >&2

image: image-files ## the files, then the image IMAGE for linux/ARCH where a builder answers
	@if command -v docker >/dev/null && docker info >/dev/null 2>&1; then docker build --platform linux/$(ARCH) -t $(IMAGE) .; \
	elif command -v podman >/dev/null; then podman build --platform linux/$(ARCH) -t $(IMAGE) .; \
	else echo "NO IMAGE WAS BUILT. $(FILES) has what it would hold." >&2; \
	  if command -v docker >/dev/null; then echo "docker is installed, but its daemon does not answer: start it, set DOCKER_HOST, or install podman; \`docker info\` says more." >&2; \
	  else echo "Neither docker nor podman is installed." >&2; fi; fi

licenses: ## writes LICENSES.md: the license of every module in a released binary
	$(GO) build -C tools/licenses -o $(BIN)/licenses .
	$(BIN)/licenses > $(BIN)/LICENSES.md && mv $(BIN)/LICENSES.md LICENSES.md

# Go 1.26 compiles a package's functions side by side, as many as the machine and the moment permit, and the result can depend on it:
# renderer/kustomize sometimes lacks the type **[]uint8. Released binaries are compiled function by function: here, in make dist,
# .goreleaser.yaml and the images of release.yaml. make build and deploy/ci/install.sh are not: nobody compares their binaries, and all
# packages would be compiled again.
ONE := -gcflags=all=-c=1
# A difference in byte 3977 is one in the build id that Go computes from everything that is linked: the list says from what.
reproducible: ## builds the released binary of HEAD twice, in two clones and without a shared cache, and compares
	@rm -rf $(BIN)/first $(BIN)/second $(BIN)/first-cache $(BIN)/second-cache; mkdir -p $(BIN)
	@set -e; commit=$$(git rev-parse HEAD); for folder in first second; do \
	  git clone -q --no-checkout . $(BIN)/$$folder; git -C $(BIN)/$$folder checkout -q --detach $$commit; \
	  ( cd $(BIN)/$$folder && export GOCACHE=$(BIN)/$$folder-cache && $(GO) build -buildvcs=true $(ONE) -ldflags '$(LDFLAGS)' -o ../sluice-$$folder ./cmd/sluice && \
	    $(GO) list -export $(ONE) -deps -f '{{.ImportPath}} {{.BuildID}}' ./cmd/sluice > ../sluice-$$folder.packages && $(GO) version -m ../sluice-$$folder | tail -n +2 > ../sluice-$$folder.stamps ); \
	  rm -rf $(BIN)/$$folder $(BIN)/$$folder-cache; \
	done; cd $(BIN) && sha256sum sluice-first sluice-second; cmp sluice-first sluice-second || { echo "stamps and packages that differ:"; \
	  diff sluice-first.stamps sluice-second.stamps || :; diff sluice-first.packages sluice-second.packages || :; exit 1; }; rm sluice-first* sluice-second*

schema: ## writes docs/schema from the Go types
	$(GO) test ./fleet -run TestSchemas -update
	$(GO) test ./cmd/internal/cli -run TestOutputSchemas -update

clean:
	rm -rf $(BIN)
