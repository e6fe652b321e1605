/* The hash trees of what users sign (net/signed.h), and what is kept of what was verified (net/verified.h). */
#include "net/signed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEAVES_MAX 70

static void leaves_of_many_texts_are_those_of_each(void **state)
{
    static const uint8_t text[] = "one two";
    static const uint32_t off[] = {0, 3, 3, 7};
    struct signed_hash *leaves = signed_leaves(text, off, 3);

    for (uint32_t i = 0; i < 3; i++) {
        struct signed_hash leaf = signed_leaf(text + off[i], off[i + 1] - off[i]);
        assert_memory_equal(&leaves[i], &leaf, sizeof leaf);
    }
    free(leaves);
}

static void trees_of_any_size_prove_every_leaf(void **state)
{
    struct signed_hash leaves[LEAVES_MAX], root, got;

    for (uint32_t i = 0; i < LEAVES_MAX; i++)
        leaves[i] = signed_leaf((const uint8_t *)&i, sizeof i);
    for (uint32_t n = 1; n <= LEAVES_MAX; n++) {
        struct signed_hash *nodes = signed_tree(leaves, n);

        root = signed_root(leaves, n);
        for (uint32_t i = 0; i < n; i++) {
            struct signed_proof proof = signed_prove(nodes, n, i);
            assert_true(signed_root_of(&leaves[i], &proof, &got));
            assert_memory_equal(&got, &root, sizeof root);
            assert_true(!signed_root_of(&leaves[(i + 1) % LEAVES_MAX], &proof, &got) ||
                        memcmp(&got, &root, sizeof root) != 0);
            proof.n++;
            assert_false(signed_root_of(&leaves[i], &proof, &got));
            proof.n -= proof.n > 1 ? 2 : 0;
            assert_false(signed_root_of(&leaves[i], &proof, &got));
        }
        free(nodes);
    }
}

/* RFC 6962's tree of two leaves, from its own first bytes: other programs make the same. */
static void the_tree_is_that_of_the_rfc(void **state)
{
    struct signed_hash leaves[2] = {signed_leaf((const uint8_t *)"a", 1), signed_leaf(NULL, 0)}, root, want;
    uint8_t bytes[1 + 2 * SIGNED_HASH] = {1};

    assert_int_equal(EVP_Digest("\0a", 2, want.bytes, NULL, EVP_sha256(), NULL), 1);
    assert_memory_equal(&leaves[0], &want, sizeof want);
    assert_int_equal(EVP_Digest("\0", 1, want.bytes, NULL, EVP_sha256(), NULL), 1);
    assert_memory_equal(&leaves[1], &want, sizeof want);
    memcpy(bytes + 1, leaves, sizeof leaves);
    assert_int_equal(EVP_Digest(bytes, sizeof bytes, want.bytes, NULL, EVP_sha256(), NULL), 1);
    root = signed_root(leaves, 2);
    assert_memory_equal(&root, &want, sizeof want);
}

static void check_ring(enum verified_kind kind)
{
    struct verified *b = verified_new();
    struct signer ann_of = {.cluster = "blue", .from_s = 10, .until_s = 20};
    uint8_t key[TREE_HASH] = {0};

    for (uint32_t i = 0; i <= VERIFIED_MAX; i++) {
        memcpy(key, &i, sizeof i);
        assert_null(verified_find(b, kind, key, 10));
        verified_add(b, kind, key, &ann_of);
        assert_non_null(verified_find(b, kind, key, 10));
    }
    assert_null(verified_find(b, kind, key, 9));
    assert_non_null(verified_find(b, kind, key, 19));
    assert_null(verified_find(b, kind, key, 20));
    for (uint32_t i = 0; i <= VERIFIED_MAX; i++) {
        memcpy(key, &i, sizeof i);
        assert_int_equal(verified_find(b, kind, key, 10) != NULL, i > 0);
    }
    verified_forget(b);
    assert_null(verified_find(b, kind, key, 10));
    verified_free(b);
}

static void the_oldest_of_each_kind_makes_room(void **state)
{
    for (int kind = 0; kind < VERIFIED_KINDS; kind++)
        check_ring((enum verified_kind)kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_of_many_texts_are_those_of_each),
        cmocka_unit_test(trees_of_any_size_prove_every_leaf),
        cmocka_unit_test(the_tree_is_that_of_the_rfc),
        cmocka_unit_test(the_oldest_of_each_kind_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
