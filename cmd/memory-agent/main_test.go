package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/connect"
)

// runMain makes the test binary memory-agent itself.
const runMain = "MEMORY_AGENT_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
	}
	for _, name := range append(connect.Variables(), "MEMORYCTL_ADDR", "MEMORYCTL_NAMESPACE", "ANTHROPIC_API_KEY") {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
