package rpc

import (
	"encoding/hex"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// conditions are the fields of a request about what its caller has seen. The zero value asks for nothing.
type conditions struct {
	ifRevision   *int64
	ifSHA256     *string
	viewedSHA256 *string
}

// call makes the conditions those of a call.
func (c conditions) call(requestID string) (call memory.Call, err error) {
	call = memory.Call{RequestID: requestID, IfRevision: c.ifRevision}
	if call.IfSHA256, err = parseSHA256("if_sha256", c.ifSHA256); err != nil {
		return memory.Call{}, err
	}
	call.ViewedSHA256, err = parseSHA256("viewed_sha256", c.viewedSHA256)
	return call, err
}

func parseSHA256(field string, text *string) (*[32]byte, error) {
	if text == nil {
		return nil, nil
	}
	var sum [32]byte
	if len(*text) != hex.EncodedLen(len(sum)) {
		return nil, errSHA256(field)
	}
	if _, err := hex.Decode(sum[:], []byte(*text)); err != nil {
		return nil, errSHA256(field)
	}
	return &sum, nil
}

func errSHA256(field string) error { return invalid(field, "%s must be 64 hexadecimal digits", field) }
