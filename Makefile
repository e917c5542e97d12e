SHELL := bash
.DELETE_ON_ERROR:
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules

GO ?= go
DATA ?= ./memoryd-data
FUZZTIME ?= 30s
BENCHTIME ?= 1s
# What `go test` is given besides: make test ARGS='-run TestVectors -v'.
ARGS ?=

tool = $(GO) tool -modfile=cmd/tools/go.mod

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
	$(GO) run ./cmd/memoryd --data $(DATA)

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
e2e: bin/tools/grpcurl ## Run the tests of the built binaries, README and grpcurl included
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

.PHONY: bench
bench: ## Run the benchmarks, with allocations
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

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
	cd cmd/tools && $(GO) mod tidy -diff
	cd cmd/e2e/testdata/clouds && $(GO) mod tidy -diff
	$(GO) vet ./...
	$(tool) golangci-lint run

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
	rm -rf bin
