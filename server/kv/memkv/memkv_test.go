package memkv_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kv.Store { return memkv.New() })
}

func TestHeadroom(t *testing.T) {
	kvtest.Headroom(t, kv.MaxOverheadBytes, func(*testing.T) kv.Store { return memkv.NewWithHeadroom(kv.MaxOverheadBytes) })
}
