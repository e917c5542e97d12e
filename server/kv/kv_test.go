package kv_test

import (
	"context"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

type engine struct{ kv.Store }

func (engine) Check(context.Context) error { return nil }

type decorator struct{ kv.Store }

func (d decorator) Unwrap() kv.Store { return d.Store }

func TestAs(t *testing.T) {
	for _, tt := range []struct {
		name  string
		store kv.Store
		want  bool
	}{
		{"engine", engine{}, true},
		{"decorated", decorator{engine{}}, true},
		{"decorated twice", decorator{decorator{engine{}}}, true},
		{"engine without it", struct{ kv.Store }{}, false},
		{"decorated engine without it", decorator{struct{ kv.Store }{}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checker, got := kv.As[kv.Checker](tt.store)
			if got != tt.want || (checker != nil) != tt.want {
				t.Errorf("got %v, %v, want %v", checker, got, tt.want)
			}
		})
	}
}
