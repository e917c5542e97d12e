package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

const (
	// maxKeysetBytes is more than a keyset has that is rotated every day for ten years.
	maxKeysetBytes = 4 << 20
	// kmsTimeout is how long a key management service has to answer.
	kmsTimeout = 30 * time.Second
	// rotatingSuffix is that of the file that is to take the place of a keyset. It keeps two rotations apart, of which
	// the second would take away the key that the first added.
	rotatingSuffix = ".new"
)

// Keyset says where the keyset is that a store is encrypted with. The zero value is for stores that are not.
type Keyset struct {
	// File is a keyset of Tink as JSON.
	File string
	// KeyURI is the key of a key management service that encrypts File, such as aws-kms://arn:aws:kms:…. A client for it
	// must have been registered with Tink, see registry.RegisterKMSClient. "": File is in clear, and only its owner may
	// be able to read it.
	KeyURI string
}

// KeysetKey is what may be told of a key of a keyset.
type KeysetKey struct {
	ID      uint32
	Primary bool // it wraps the data keys of namespaces; the others are there for what they have wrapped
	Enabled bool
}

// NewKeyset makes a keyset with one key in a new file, which only its owner can read, and returns the id of the key. A
// file that is there is fs.ErrExist.
func NewKeyset(ctx context.Context, k Keyset) (id uint32, err error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return 0, fmt.Errorf("make keyset: %w", err)
	}
	data, err := k.encode(ctx, handle)
	if err != nil {
		return 0, fmt.Errorf("make keyset: %w", err)
	}
	if info, err := os.Stat(k.File); err == nil && info.IsDir() {
		return 0, fmt.Errorf("make keyset: %w", k.isDirectory())
	}
	file, err := os.OpenFile(k.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("make keyset: %w; it is left as it is: without it nobody could read what was encrypted with it",
			err)
	}
	if err != nil {
		return 0, fmt.Errorf("make keyset: %w", err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = syncDir(filepath.Dir(k.File))
	}
	if err != nil {
		return 0, fmt.Errorf("make keyset: %w", errors.Join(err, os.Remove(k.File)))
	}
	return primaryOf(handle)
}

// RotateKeyset adds a key to a keyset, makes it the primary one, and returns its id. The keys that were there stay. The
// file is replaced as a whole, and its owner and permissions stay. A crash leaves the one or the other.
func RotateKeyset(ctx context.Context, k Keyset) (id uint32, err error) {
	if id, err = rotateKeyset(ctx, k); err != nil {
		return 0, fmt.Errorf("rotate keyset: %w", err)
	}
	return id, nil
}

func rotateKeyset(ctx context.Context, k Keyset) (id uint32, err error) {
	// What a symbolic link leads to is replaced, and not the link.
	if k.File, err = filepath.EvalSymlinks(k.File); err != nil {
		return 0, err
	}
	info, err := os.Stat(k.File)
	if err == nil && info.IsDir() {
		err = k.isDirectory()
	}
	if err != nil {
		return 0, err
	}
	temp := k.File + rotatingSuffix
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("%s is there (%w): another rotation runs, or one was killed before it took effect; "+
			"if none runs, remove %s and rotate again", temp, fs.ErrExist, temp)
	}
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	id, err = k.writeRotated(ctx, file, info)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return 0, err
	}
	if err := os.Rename(temp, k.File); err != nil {
		return 0, err
	}
	return id, syncDir(filepath.Dir(k.File))
}

// writeRotated writes the keyset with one key more. The owner and the permissions are those of the file that is there.
func (k Keyset) writeRotated(ctx context.Context, to *os.File, info fs.FileInfo) (id uint32, err error) {
	handle, err := k.read(ctx)
	if err != nil {
		return 0, err
	}
	manager := keyset.NewManagerFromHandle(handle)
	if id, err = manager.Add(aead.AES256GCMKeyTemplate()); err != nil {
		return 0, err
	}
	if err := manager.SetPrimary(id); err != nil {
		return 0, err
	}
	if handle, err = manager.Handle(); err != nil {
		return 0, err
	}
	data, err := k.encode(ctx, handle)
	if err != nil {
		return 0, err
	}
	if err := keepOwner(to, info); err != nil {
		return 0, err
	}
	if err := to.Chmod(info.Mode().Perm()); err != nil && runtime.GOOS != "windows" {
		return 0, err
	}
	_, err = to.Write(data)
	return id, err
}

// KeysetKeys returns what may be told of the keys of a keyset, in the order in which they were added.
func KeysetKeys(ctx context.Context, k Keyset) ([]KeysetKey, error) {
	handle, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	var all []KeysetKey
	for i := range handle.Len() {
		entry, err := handle.Entry(i)
		if err != nil {
			return nil, fmt.Errorf("read keyset %s: %w", k.File, err)
		}
		all = append(all, KeysetKey{
			ID: entry.KeyID(), Primary: entry.IsPrimary(), Enabled: entry.KeyStatus() == keyset.Enabled,
		})
	}
	return all, nil
}

func primaryOf(handle *keyset.Handle) (uint32, error) {
	entry, err := handle.Primary()
	if err != nil {
		return 0, fmt.Errorf("read keyset: %w", err)
	}
	return entry.KeyID(), nil
}

// read reads the keyset; nil where there is none.
func (k Keyset) read(ctx context.Context) (*keyset.Handle, error) {
	if k.File == "" {
		return nil, nil
	}
	file, err := os.Open(k.File)
	if err != nil {
		return nil, fmt.Errorf("read keyset: %w", err)
	}
	defer func() { _ = file.Close() }() // Nothing was written.
	if err := k.checkFile(file); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxKeysetBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read keyset: %w", err)
	}
	return k.decode(ctx, data)
}

// checkFile returns an error for a directory, and where others than its owner can read a keyset in clear.
func (k Keyset) checkFile(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read keyset: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("read keyset: %w", k.isDirectory())
	}
	if mode := info.Mode().Perm(); k.KeyURI == "" && mode&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("read keyset: others than its owner have access to %s (mode %#o), which holds keys in clear: "+
			"run chmod 600 %s", k.File, mode, k.File)
	}
	return nil
}

func (k Keyset) isDirectory() error {
	return fmt.Errorf("%s is a directory: name a file in it", k.File)
}

// decode reads a keyset from the bytes of its file. What Tink and the parser say of a keyset in clear may quote it, and
// is not told.
func (k Keyset) decode(ctx context.Context, data []byte) (*keyset.Handle, error) {
	var form struct {
		Key              json.RawMessage `json:"key"`
		EncryptedKeyset  json.RawMessage `json:"encryptedKeyset"`
		PrimaryKeyID     json.RawMessage `json:"primaryKeyId"`
		EncryptedKeysetP json.RawMessage `json:"encrypted_keyset"` // as protobuf spells it
	}
	if len(data) > maxKeysetBytes || json.Unmarshal(data, &form) != nil {
		return nil, fmt.Errorf("read keyset: %s is no keyset of Tink as JSON; memoryd keyset new makes one", k.File)
	}
	encrypted := form.EncryptedKeyset != nil || form.EncryptedKeysetP != nil
	switch {
	case encrypted && k.KeyURI == "":
		return nil, fmt.Errorf("read keyset: %s is encrypted with the key of a key management service: give its URI", k.File)
	case !encrypted && k.KeyURI != "":
		return nil, fmt.Errorf("read keyset: %s is not encrypted with the key of a key management service, "+
			"but the URI of one was given", k.File)
	}
	reader := keyset.NewJSONReader(bytes.NewReader(data))
	if !encrypted {
		handle, err := insecurecleartextkeyset.Read(reader)
		if err != nil {
			return nil, fmt.Errorf("read keyset: %s is no keyset of Tink as JSON; memoryd keyset new makes one", k.File)
		}
		return handle, nil
	}
	var handle *keyset.Handle
	err := k.withKMS(ctx, func(kek tink.AEAD) (err error) {
		handle, err = keyset.Read(reader, kek)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read keyset %s: decrypt it with %s: %w", k.File, k.KeyURI, err)
	}
	return handle, nil
}

// encode returns the bytes of the file of a keyset.
func (k Keyset) encode(ctx context.Context, handle *keyset.Handle) ([]byte, error) {
	var b bytes.Buffer
	writer := keyset.NewJSONWriter(&b)
	if k.KeyURI == "" {
		err := insecurecleartextkeyset.Write(handle, writer)
		b.WriteByte('\n')
		return b.Bytes(), err
	}
	err := k.withKMS(ctx, func(kek tink.AEAD) error { return handle.Write(writer, kek) })
	if err != nil {
		return nil, fmt.Errorf("encrypt keyset with %s: %w", k.KeyURI, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// withKMS calls fn with the key of the key management service. Tink's clients know no context, so that one that does
// not answer is left behind.
func (k Keyset) withKMS(ctx context.Context, fn func(kek tink.AEAD) error) error {
	ctx, cancel := context.WithTimeout(ctx, kmsTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			client, err := registry.GetKMSClient(k.KeyURI)
			if err != nil {
				return fmt.Errorf("no key management service is known for it: %w", err)
			}
			kek, err := client.GetAEAD(k.KeyURI)
			if err != nil {
				return err
			}
			return fn(kek)
		}()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer: %w", ctx.Err())
	}
}
