package client

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// prepare returns a copy of a request that can be sent: with a namespace, with a request id if it is a write, and with
// every string valid UTF-8, for which gRPC would otherwise answer INTERNAL. A nil request is an empty one.
func prepare[T proto.Message](c *Client, req T) T {
	m := req.ProtoReflect().New()
	proto.Merge(m.Interface(), req)
	repairUTF8(m)
	setDefault(m, "namespace", func() string { return DefaultNamespace })
	setDefault(m, "request_id", c.newID)
	return m.Interface().(T)
}

// setDefault sets a field of m that is empty, if the message has it: only writes have a request_id.
func setDefault(m protoreflect.Message, name protoreflect.Name, value func() string) {
	if fd := m.Descriptor().Fields().ByName(name); fd != nil && m.Get(fd).String() == "" {
		m.Set(fd, protoreflect.ValueOfString(value()))
	}
}

// repairUTF8 replaces invalid UTF-8 in the strings of m and of the messages in it. Requests have no maps.
func repairUTF8(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				if fd.Message() != nil {
					repairUTF8(v.List().Get(i).Message())
				} else if s, bad := repairString(fd, v.List().Get(i)); bad {
					v.List().Set(i, s)
				}
			}
		case fd.Message() != nil:
			repairUTF8(v.Message())
		default:
			if s, bad := repairString(fd, v); bad {
				m.Set(fd, s)
			}
		}
		return true
	})
}

func repairString(fd protoreflect.FieldDescriptor, v protoreflect.Value) (_ protoreflect.Value, bad bool) {
	if fd.Kind() != protoreflect.StringKind || utf8.ValidString(v.String()) {
		return v, false
	}
	return protoreflect.ValueOfString(validUTF8(v.String())), true
}

func validUTF8(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }
