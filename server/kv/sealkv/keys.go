package sealkv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/key"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// What a ciphertext is bound to begins with this version and with one of these, so that none can take the place of
// another.
const (
	bindVersion = 1

	bindDataKey = 'k'
	bindValue   = 'v'
	bindCheck   = 'c'
)

// associatedData returns what a ciphertext of a scope is bound to. The length keeps scope and key apart that follow.
func associatedData(kind byte, scope string) []byte {
	ad := make([]byte, 0, 2+binary.MaxVarintLen64+len(scope)+64)
	ad = append(ad, bindVersion, kind)
	ad = binary.AppendUvarint(ad, uint64(len(scope)))
	return append(ad, scope...)
}

// keys is a keyset that wraps data keys.
type keys struct {
	handle  *keyset.Handle
	aead    tink.AEAD
	primary uint32
	enabled map[uint32]key.Key

	announced atomic.Bool  // the store has a seal check by the primary key
	using     sync.RWMutex // held for reading by updates; once it is held for writing, there is none any more
}

func newKeys(handle *keyset.Handle) (*keys, error) {
	if handle == nil {
		return nil, errors.New("no keyset given")
	}
	a, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("use keyset: %w", err)
	}
	k := &keys{handle: handle, aead: a, enabled: map[uint32]key.Key{}}
	for i := range handle.Len() {
		entry, err := handle.Entry(i)
		if err != nil {
			return nil, fmt.Errorf("use keyset: %w", err)
		}
		if entry.KeyStatus() == keyset.Enabled {
			k.enabled[entry.KeyID()] = entry.Key()
		}
		if entry.IsPrimary() {
			k.primary = entry.KeyID()
		}
	}
	// Which key wraps what must be readable.
	probe, err := a.Encrypt(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("use keyset: %w", err)
	}
	if id, ok := wrappedBy(probe); !ok || id != k.primary {
		return nil, errors.New("use keyset: its primary key does not put its id before what it encrypts; " +
			"make the keyset with memoryd keyset new")
	}
	return k, nil
}

// wrappedBy returns the id of the key that wraps a data key.
func wrappedBy(wrapped []byte) (id uint32, ok bool) {
	const form = 0x01 // of Tink
	if len(wrapped) < OverheadBytes || wrapped[0] != form {
		return 0, false
	}
	return binary.BigEndian.Uint32(wrapped[1:]), true
}

// missing returns the ids of keys that the other keyset has, and this one has not, or has another under that id.
func (k *keys) missing(other *keys, ids ...uint32) []uint32 {
	var missing []uint32
	for _, id := range ids {
		if mine, ok := k.enabled[id]; !ok || !mine.Equal(other.enabled[id]) {
			missing = append(missing, id)
		}
	}
	return missing
}

// dataKey seals the values of a scope.
type dataKey struct {
	wrapped []byte // as it is stored
	aead    tink.AEAD
}

func (k *keys) newDataKey(scope string) (*dataKey, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make data key: %w", err)
	}
	return k.wrap(scope, handle)
}

// wrap makes a data key of a keyset.
func (k *keys) wrap(scope string, handle *keyset.Handle) (*dataKey, error) {
	a, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("use data key: %w", err)
	}
	var clearText bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewBinaryWriter(&clearText)); err != nil {
		return nil, fmt.Errorf("wrap data key: %w", err)
	}
	defer func() { clear(clearText.Bytes()) }()
	wrapped, err := k.aead.Encrypt(clearText.Bytes(), associatedData(bindDataKey, scope))
	if err != nil {
		return nil, fmt.Errorf("wrap data key: %w", err)
	}
	return &dataKey{wrapped: wrapped, aead: a}, nil
}

// open returns the keyset that a data key is.
func (k *keys) open(scope string, wrapped []byte) (*keyset.Handle, error) {
	id, ok := wrappedBy(wrapped)
	if !ok {
		return nil, fmt.Errorf("unwrap data key: it is no data key: %w", kv.ErrCorrupt)
	}
	if _, ok := k.enabled[id]; !ok {
		return nil, fmt.Errorf("unwrap data key: key %d is missing: %w: %w", id, ErrWrongKeyset, kv.ErrCorrupt)
	}
	clearText, err := k.aead.Decrypt(wrapped, associatedData(bindDataKey, scope))
	if err != nil { // It says nothing that helps.
		return nil, fmt.Errorf("unwrap data key: it was changed or moved: %w", kv.ErrCorrupt)
	}
	defer clear(clearText)
	handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(clearText)))
	if err != nil {
		return nil, fmt.Errorf("unwrap data key: it is no keyset: %w", kv.ErrCorrupt)
	}
	return handle, nil
}

func (k *keys) unwrap(scope string, wrapped []byte) (*dataKey, error) {
	handle, err := k.open(scope, wrapped)
	if err != nil {
		return nil, err
	}
	a, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("use data key: %w: %w", kv.ErrCorrupt, err)
	}
	return &dataKey{wrapped: bytes.Clone(wrapped), aead: a}, nil
}

// rewrap wraps a data key by the primary key, and gives it a fresh part that seals what is written from now on.
func (k *keys) rewrap(scope string, wrapped []byte) (*dataKey, error) {
	handle, err := k.open(scope, wrapped)
	if err != nil {
		return nil, err
	}
	manager := keyset.NewManagerFromHandle(handle)
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	if err == nil {
		err = manager.SetPrimary(id)
	}
	if err != nil {
		return nil, fmt.Errorf("renew data key: %w", err)
	}
	if handle, err = manager.Handle(); err != nil {
		return nil, fmt.Errorf("renew data key: %w", err)
	}
	return k.wrap(scope, handle)
}
