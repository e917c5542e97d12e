package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// sealedDamage is a store that is sealed, with a namespace that takes three transactions to delete and whose data key
// is damaged.
type sealedDamage struct {
	*kvtest.Faulty
	*memory.Memory
	below kv.Store
}

func newSealedDamage(t *testing.T) sealedDamage {
	t.Helper()
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	below := memkv.NewWithHeadroom(sealkv.OverheadBytes)
	sealed, err := sealkv.Open(t.Context(), below, sealkv.Options{Keyset: handle})
	if err != nil {
		t.Fatal(err)
	}
	s := sealedDamage{Faulty: &kvtest.Faulty{Store: sealed}, below: below}
	if s.Memory, err = memory.New(s.Faulty, memory.Options{}); err != nil {
		t.Fatal(err)
	}
	kvtest.Check(t, s.Faulty)
	must(t, s.Memory, memory.Create{Path: "/memories/f", FileText: "old"})
	if _, err := s.Do(t.Context(), "other", memory.Create{Path: "/memories/f", FileText: "x"}, memory.Call{}); err != nil {
		t.Fatal(err)
	}
	err = sealed.Update(t.Context(), namespace, func(tx kv.Tx) error {
		for i := range kv.MaxWrites {
			if err := tx.Put(fmt.Appendf(nil, "\xff%06d", i), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = below.Update(t.Context(), namespace, func(tx kv.Tx) error {
		dataKey := []byte("\x00sealkv.key")
		values, err := tx.Get(dataKey)
		if err != nil {
			return err
		}
		damaged := append([]byte{}, values[0]...)
		damaged[len(damaged)-1] ^= 1
		return tx.Put(dataKey, damaged)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keys returns how many keys there are in the namespace, that of its data key included.
func (s sealedDamage) keys(t *testing.T) (n int) {
	t.Helper()
	err := s.below.View(t.Context(), namespace, func(r kv.Reader) error {
		return r.Scan(kv.ScanOptions{KeysOnly: true}, func(_, _ []byte) error { n++; return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A namespace whose data key is damaged can be deleted, whatever interrupts that, and made anew.
func TestDeleteNamespace_DataKeyDamaged(t *testing.T) {
	s := newSealedDamage(t)
	before := s.keys(t)
	s.BeforeUpdate = kvtest.OnCall(4, kv.ErrBusy) // After one that reads, the mark, and a first part.
	if err := s.DeleteNamespace(t.Context(), namespace); !errors.Is(err, kv.ErrBusy) {
		t.Fatalf("interrupted: got %v, want %v", err, kv.ErrBusy)
	}
	if got := s.keys(t); got == 0 || got >= before {
		t.Errorf("interrupted: got %d keys of %d, want a part", got, before)
	}
	if _, err := s.Namespace(t.Context(), namespace); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("interrupted: got %v, want %v", err, kv.ErrCorrupt)
	}
	s.BeforeUpdate = nil
	if err := s.DeleteNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if got := s.keys(t); got != 0 {
		t.Errorf("got %d keys left", got)
	}
	if err := s.DeleteNamespace(t.Context(), namespace); !errors.Is(err, memory.ErrNoNamespace) {
		t.Errorf("again: got %v, want %v", err, memory.ErrNoNamespace)
	}
	if result := must(t, s.Memory, memory.Create{Path: "/memories/f", FileText: "new"}); result.Revision != 1 {
		t.Errorf("a new life starts at revision %d", result.Revision)
	}
	if ns, err := s.Namespace(t.Context(), "other"); err != nil || ns.FileCount != 1 {
		t.Errorf("another namespace: got %+v, %v, want it as it was", ns, err)
	}
}

// What somebody else makes anew, when part of what was damaged is deleted, is not what was to be deleted.
func TestDeleteNamespace_DamagedAndMadeAnew(t *testing.T) {
	s := newSealedDamage(t)
	quicker := kvtest.OnCall(4, errMeanwhile)
	s.BeforeUpdate = func(scope string) error {
		if quicker(scope) == nil {
			return nil
		}
		s.BeforeUpdate = nil
		if err := s.DeleteNamespace(context.Background(), namespace); err != nil {
			t.Errorf("delete: %v", err)
		}
		must(t, s.Memory, memory.Create{Path: "/memories/f", FileText: "new"})
		return nil
	}
	if err := s.DeleteNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if result := must(t, s.Memory, memory.View{Path: "/memories/f"}); result.Revision != 1 {
		t.Errorf("got %+v, want the new file", result)
	}
}

var errMeanwhile = errors.New("meanwhile")
