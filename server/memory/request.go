package memory

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// DefaultRequestWindow is how long the response of a request is recorded, unless Options say otherwise.
const DefaultRequestWindow = 24 * time.Hour

// ErrRequestIDReused means that the id of a request was used before for something else.
var ErrRequestIDReused = errors.New("request id was used for a different command")

const (
	// recordHeadBytes is how much of a recorded response its first value holds. Nearly all have no more, and those that
	// have are looked at as quickly.
	recordHeadBytes = 1 << 10
	// recordPartBytes is how much each of the others holds.
	recordPartBytes = 128 << 10
	// sweepStep is how many recorded responses an update looks at that records one, to remove those that are old. It is
	// more than it adds, so that they go.
	sweepStep = 4
)

// request is a request that may be repeated. The zero value is one that may not.
type request struct {
	recorded    bool
	digest      digest            // of its id
	fingerprint [sha256.Size]byte // of what is asked for
}

// newRequest returns the request of an id; "" is one that may not be repeated.
func newRequest(id string, steps ...step) request {
	if id == "" {
		return request{}
	}
	return request{recorded: true, digest: newDigest(id), fingerprint: fingerprint(steps)}
}

// digest stands for the id of a request in keys: the first bytes of the id, and then as much of its SHA-256 as there is
// room for. Ids that begin with the time, as those of the client and UUIDs of version 7 do, stay in their order so: the
// responses of a while are next to each other, and the updates that share a commit write few pages for them instead of
// one each.
type digest [sha256.Size]byte

// digestHead is how much of an id its digest has: a time in milliseconds in hexadecimal.
const digestHead = 12

func newDigest(id string) digest {
	var d digest
	hash := sha256.Sum256([]byte(id))
	copy(d[:digestHead], id)
	copy(d[digestHead:], hash[:])
	return d
}

// fingerprint tells what is asked for from anything else. It is about commands as they were parsed, so an input that
// was put right and one that was right are the same.
func fingerprint(steps []step) [sha256.Size]byte {
	h := sha256.New()
	write := func(s string) {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(s)))) // never fails
		_, _ = h.Write([]byte(s))
	}
	for _, s := range steps {
		write(s.cmd.Name())
		for _, field := range s.cmd.fields() {
			write(field)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// key is the key of the first value of the recorded response.
func (rq request) key() []byte { return recordKey(rq.digest) }

func recordKey(d digest) []byte { return append([]byte{recordPrefix}, d[:]...) }

// partKey is the key of one of the other values.
func partKey(d digest, part int) []byte {
	return binary.BigEndian.AppendUint16(partKeyPrefix(d), uint16(part))
}

func partKeyPrefix(d digest) []byte { return append([]byte{partPrefix}, d[:]...) }

// replay fills in the results that were recorded for a request, if there are any. first is the first value of the
// record, nil where there is none.
func (m *Memory) replay(tx kv.Tx, now int64, rq request, first []byte, results []Result) (replayed bool, err error) {
	if first == nil {
		return false, nil
	}
	whole := slices.Clone(first)
	err = tx.Scan(kv.ScanOptions{Prefix: partKeyPrefix(rq.digest)}, func(_, part []byte) error {
		whole = append(whole, part...)
		return nil
	})
	if err != nil {
		return false, err
	}
	if whole, err = unseal(rq.key(), whole); err != nil {
		return false, err
	}
	d := decoder{rest: whole}
	d.version()
	recorded := d.varint()
	same := [sha256.Size]byte(d.bytes(sha256.Size)) == rq.fingerprint
	switch {
	case d.err != nil:
		return false, d.finish(rq.key())
	case m.expired(recorded, now):
		return false, forget(tx, rq.digest)
	case !same:
		return false, ErrRequestIDReused
	}
	for i := range results {
		results[i] = d.result()
	}
	return true, d.finish(rq.key())
}

// record records the results of a request.
func (rq request) record(tx kv.Tx, now int64, results []Result) error {
	if !rq.recorded {
		return nil
	}
	whole := []byte{recordVersion}
	whole = binary.AppendVarint(whole, now)
	whole = append(whole, rq.fingerprint[:]...)
	for _, r := range results {
		whole = appendResult(whole, r)
	}
	whole = seal(rq.key(), whole)
	head := min(len(whole), recordHeadBytes)
	if err := tx.Put(rq.key(), whole[:head]); err != nil {
		return err
	}
	part := 0
	for piece := range slices.Chunk(whole[head:], recordPartBytes) {
		if err := tx.Put(partKey(rq.digest, part), piece); err != nil {
			return err
		}
		part++
	}
	return nil
}

// sweep removes the responses that nobody asks for any more, of those that come next after a digest. It returns the
// last that it looked at, from which the next sweep goes on; zero is from the beginning.
func (m *Memory) sweep(tx kv.Tx, now int64, after digest) (last digest, err error) {
	var old []digest
	looked := 0
	opts := kv.ScanOptions{
		Prefix: []byte{recordPrefix}, From: append(recordKey(after), 0), Limit: sweepStep,
	}
	look := func(key, value []byte) error {
		looked++
		last = digest(key[1:])
		d := decoder{rest: value}
		d.version()
		if recorded := d.varint(); d.err == nil && m.expired(recorded, now) {
			old = append(old, last)
		}
		return nil
	}
	err = tx.Scan(opts, look)
	if errors.Is(err, kv.ErrCorrupt) { // One of them is damaged. They stay, and must not keep the namespace from changing.
		old, looked, opts.KeysOnly = nil, 0, true
		err = tx.Scan(opts, look)
	}
	if err != nil {
		return digest{}, err
	}
	for _, d := range old {
		if err := forget(tx, d); err != nil {
			return digest{}, err
		}
	}
	if looked < sweepStep {
		last = digest{}
	}
	return last, nil
}

func (m *Memory) expired(recorded, now int64) bool { return now-recorded > int64(m.window) }

// forget removes a recorded response.
func forget(tx kv.Tx, d digest) error {
	keys := [][]byte{recordKey(d)}
	opts := kv.ScanOptions{Prefix: partKeyPrefix(d), KeysOnly: true}
	err := tx.Scan(opts, func(key, _ []byte) error {
		keys = append(keys, key)
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := tx.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

func appendResult(b []byte, r Result) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.Content)))
	for _, block := range r.Content {
		b = appendText(b, block.Text)
		b = appendText(b, block.MediaType)
		b = appendText(b, string(block.Data))
	}
	b = binary.AppendVarint(b, r.Revision)
	var entries []Entry
	if r.Entry != nil {
		entries = append(entries, *r.Entry)
	}
	b = appendEntries(b, entries)
	return appendEntries(b, r.Entries)
}

func appendEntries(b []byte, entries []Entry) []byte {
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		var flags byte
		if e.Dir {
			flags |= flagDir
		}
		if e.Pinned {
			flags |= flagPinned
		}
		b = append(appendText(b, e.Path), flags)
		for _, n := range []int64{nanoseconds(e.Created), nanoseconds(e.Modified), e.Revision, e.Size, e.Lines, e.FileCount} {
			b = binary.AppendVarint(b, n)
		}
		b = append(b, e.SHA256[:]...)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (d *decoder) result() Result {
	var r Result
	for range d.count() {
		block := Block{Text: d.text(), MediaType: d.text()}
		if data := d.text(); data != "" {
			block.Data = []byte(data)
		}
		r.Content = append(r.Content, block)
	}
	r.Revision = d.varint()
	if entries := d.entries(); len(entries) > 0 {
		r.Entry = &entries[0]
	}
	r.Entries = d.entries()
	return r
}

func (d *decoder) entries() []Entry {
	var entries []Entry
	for range d.count() {
		path, flags := d.text(), d.byte()
		entries = append(entries, Entry{
			Path:      path,
			Dir:       flags&flagDir != 0,
			Pinned:    flags&flagPinned != 0,
			Created:   instant(d.varint()),
			Modified:  instant(d.varint()),
			Revision:  d.varint(),
			Size:      d.varint(),
			Lines:     d.varint(),
			FileCount: d.varint(),
			SHA256:    [sha256.Size]byte(d.bytes(sha256.Size)),
		})
	}
	return entries
}

func (d *decoder) text() string { return string(d.bytes(d.count())) }

// count reads a length. What it counts takes at least a byte each, so a larger one than there are bytes is an error.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return int(n)
}
