SHELL := bash
.DELETE_ON_ERROR:
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules

GO ?= go
DATA ?= ./memoryd-data
# What releases are for.
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
FUZZTIME ?= 30s
BENCHTIME ?= 1s
# What `go test` is given besides: make test ARGS='-run TestVectors -v'.
ARGS ?=

tool = $(GO) tool -modfile=cmd/tools/go.mod

# Modules of their own, so that what they need is not what memoryd needs.
modules := cmd/bench cmd/bench/etcd deploy/packages deploy/validate

# The race detector needs cgo; without a C compiler `go env` says 0.
ifeq ($(shell $(GO) env CGO_ENABLED),1)
race_flag := -race
else
race_flag :=
endif

.PHONY: help
help: ## Show this help
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: run
run: ## Run memoryd on 127.0.0.1:7711 with its data in ./memoryd-data
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/memoryd
	bin/memoryd --data $(DATA)

.PHONY: build
build: ## Build memoryd, memoryctl and memory-agent into ./bin
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/memoryd ./cmd/memoryctl ./cmd/memory-agent

.PHONY: demo
demo: build ## Show an agent that is killed and carries on from memory; no network, no key
	bin/memory-agent demo

.PHONY: test
test: ## Run all tests, with the race detector where cgo works
	@[ -n "$(race_flag)" ] || { echo; echo '*** NO C COMPILER: the tests run WITHOUT the race detector. ***'; echo; } >&2
	$(GO) test $(race_flag) $(ARGS) ./...

.PHONY: race
race: ## Run all tests with the race detector, and fail where it cannot run
	CGO_ENABLED=1 $(GO) test -race $(ARGS) ./...

.PHONY: e2e
e2e: bin/tools/grpcurl ## Run the tests of the built binaries, documentation and grpcurl included
	MEMORYD_TEST_GRPCURL=$(CURDIR)/bin/tools/grpcurl $(GO) test $(race_flag) -count=1 $(ARGS) ./cmd/e2e

bin/tools/grpcurl: cmd/tools/go.mod
	$(GO) build -modfile=cmd/tools/go.mod -o $@ github.com/fullstorydev/grpcurl/cmd/grpcurl

.PHONY: soak
soak: bin/tools/grpcurl ## Run the tests of crashes, disks and damage at full length
	MEMORYD_SOAK=1 MEMORYD_TEST_GRPCURL=$(CURDIR)/bin/tools/grpcurl \
		$(GO) test $(race_flag) -count=1 -timeout 60m $(ARGS) ./cmd/e2e ./server/... ./client/...

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME (30s)
	@for package in $$($(GO) list ./...); do \
		for fuzz in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$fuzz"; \
			$(GO) test -run '^$$' -fuzz "^$$fuzz\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: counters
counters: ## Run the tests of what hot paths may cost, which the race detector would change
	$(GO) test -count=1 -run 'Counters|Allocs' $(ARGS) ./server ./server/kv/boltkv ./server/memory

.PHONY: bench
bench: build ## Measure memoryd and what it is compared with; ARGS=--help says how
	cd cmd/bench && CGO_ENABLED=0 $(GO) build -trimpath -o $(CURDIR)/bin/ .
	cd cmd/bench/etcd && CGO_ENABLED=0 $(GO) build -trimpath -o $(CURDIR)/bin/ .
	@if command -v npm >/dev/null; then \
		npm ci --prefix cmd/bench/node --ignore-scripts --no-audit --no-fund --silent || \
			echo '*** The tool of the TypeScript SDK could not be installed. ***' >&2; \
	fi
	bin/bench $(ARGS)

.PHONY: bench-go
bench-go: ## Run the micro benchmarks of the packages, with allocations
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: test-bench
test-bench: ## Run the tests of the benchmark
	cd cmd/bench && $(GO) test $(race_flag) $(ARGS) ./...

.PHONY: test-deploy
test-deploy: build ## Check the manifests in deploy/, and run memoryd as they say
	cd deploy/validate && MEMORYD_BIN=$(CURDIR)/bin $(GO) test -count=1 $(ARGS) ./...

packages = cd deploy/packages && $(GO) run . -platforms $(PLATFORMS)

.PHONY: dist
dist: ## Build archives of the binaries for all PLATFORMS into ./dist, with checksums
	$(packages) archives

.PHONY: image
image: ## Build the container image for the Linux ones of PLATFORMS into ./dist, without Docker
	$(packages) image

.PHONY: deb
deb: ## Build the Debian packages for the Linux ones of PLATFORMS into ./dist
	$(packages) deb

.PHONY: test-dist
test-dist: ## Test what is in ./dist
	cd deploy/packages && $(GO) test $(ARGS) ./...
	MEMORYD_TEST_DIST=$(CURDIR)/dist $(GO) test -count=1 -run '^TestDist' $(ARGS) ./cmd/e2e

.PHONY: docs
docs: bin/tools/grpcurl ## Write what is generated, and what commands print, into the documentation
	$(GO) test ./cmd/memoryd -count=1 -run 'TestDocs_Settings|TestConfigFile' -update
	$(GO) test ./server/internal/ops -count=1 -run TestReference -update
	MEMORYD_TEST_GRPCURL=$(CURDIR)/bin/tools/grpcurl $(GO) test ./cmd/e2e -count=1 -run TestDocs -update

.PHONY: check
check: check-proto check-generate check-go ## Check protos, generated code, modules, format and lint

.PHONY: check-proto
check-proto:
	$(GO) tool buf lint
	$(GO) tool buf format --diff --exit-code
	$(GO) tool buf breaking --against proto/released.binpb

.PHONY: check-generate
check-generate:
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(GO) tool buf generate --output "$$dir"; \
	diff -r gen "$$dir/gen" || { echo 'gen differs from the protos: run make generate' >&2; exit 1; }

.PHONY: check-go
check-go:
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(tool) golangci-lint run
	@for module in $(modules); do \
		echo "$$module"; \
		(cd $$module && $(GO) mod tidy -diff && $(GO) vet ./... && \
			$(GO) tool -modfile=$(CURDIR)/cmd/tools/go.mod golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || exit; \
	done
	cd cmd/tools && $(GO) mod tidy -diff
	cd cmd/e2e/testdata/clouds && $(GO) mod tidy -diff

.PHONY: generate
generate: ## Generate the Go code of the protos, and format them
	$(GO) tool buf format --write
	$(GO) tool buf generate

.PHONY: released
released: ## Make the protos as they are what `buf breaking` compares with; part of a release
	$(GO) tool buf build --output proto/released.binpb

.PHONY: fmt
fmt: ## Format the Go code
	$(tool) golangci-lint fmt

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin dist
